// Runs Perfetto's trace processor, WebAssembly in the worker script of its page, under Node: requests come on stdin, replies go to stdout.
// usage: node trace_processor.js FOLDER, the folder that has engine_bundle.js and trace_processor.wasm
'use strict';
const fs = require('node:fs');
const path = require('node:path');
const vm = require('node:vm');

const folder = process.argv[2];
const replies = [];
const sandbox = {
  console: { log() {}, warn: (text) => process.stderr.write(`${text}\n`), error() {}, info() {} },
  location: { href: 'http://localhost/engine_bundle.js' },
  importScripts() {},
  XMLHttpRequest: class {
    open(method, name) {
      this.name = name;
    }
    send() {
      this.status = 200;
      const bytes = fs.readFileSync(path.join(folder, path.basename(String(this.name))));
      this.response = there(bytes).buffer;
    }
  },
  TextDecoder, TextEncoder, URL, performance, crypto, setTimeout, clearTimeout,
};
sandbox.self = sandbox;
sandbox.globalThis = sandbox;
sandbox.WorkerGlobalScope = function WorkerGlobalScope() {};
process.on('uncaughtException', (error) => {
  process.stderr.write(`${error.message.slice(0, 2000)}\n`);
  process.exit(1);
});
vm.createContext(sandbox);
const there = vm.runInContext('(bytes) => new Uint8Array(bytes)', sandbox); // of the context's own kind
vm.runInContext(fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8'), sandbox);
const port = { postMessage: (data) => replies.push(Buffer.from(data)), onmessage: null };
sandbox.onmessage({ data: port });
const asked = fs.readFileSync(0);

// The script has loaded the module by now, and takes requests when what it waits for is done.
setTimeout(() => {
  port.onmessage({ data: there(asked) });
  process.stdout.write(Buffer.concat(replies));
}, 0);
