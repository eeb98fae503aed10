/** What TypeScript does not see: markup and code made of text, and requests of a page that needs no network. */

const text = "text from a log is only ever text: use textContent, or element() of dom.js";
const markup = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "srcdoc", "createContextualFragment", "parseHTMLUnsafe"];
const requests = ["fetch", "XMLHttpRequest", "WebSocket", "WebTransport", "EventSource", "Worker", "SharedWorker", "importScripts"];

export default [
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      "eqeqeq": "error",
      "no-constant-condition": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      "no-restricted-globals": [
        "error",
        { name: "Function", message: "no code is made of text" },
        { name: "DOMParser", message: text },
        ...requests.map((name) => ({ name, message: "the page needs no network" })),
      ],
      "no-restricted-properties": [
        "error",
        ...markup.map((property) => ({ property, message: text })),
        { object: "document", property: "write", message: text },
        { object: "document", property: "writeln", message: text },
        { property: "sendBeacon", message: "the page needs no network" },
        ...["fetch", "Function", "eval", "open"].map((property) => ({ object: "window", property, message: "not in a page that is read" })),
      ],
      "no-script-url": "error",
      "no-self-compare": "error",
      "no-unused-expressions": "error",
      "no-unused-vars": "error",
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
  {
    files: ["src/**"],
    rules: {
      "no-restricted-syntax": [
        "error",
        { selector: "ImportExpression", message: "the modules become one script" },
        { selector: "ExportDefaultDeclaration", message: "the modules become one script" },
        { selector: "ExportAllDeclaration", message: "the modules become one script" },
      ],
    },
  },
];
