/** The page: unpacks the data, and puts the parts together. */

import { App } from "./app.js";
import { unpacked } from "./data.js";
import { flameGraph } from "./flame.js";
import { memoryMap } from "./memory_map.js";
import { growthPart, heldTable, trustPart, windowsTable } from "./tables.js";
import { timeline } from "./timeline.js";

async function main() {
  const root = document.documentElement;
  try {
    const data = await unpacked(JSON.parse(document.getElementById("data")?.textContent ?? "null"));
    const app = new App(data.logs[0]);
    document.getElementById("app")?.append(timeline(app));
    for (const part of [memoryMap, flameGraph, windowsTable, growthPart, heldTable, trustPart]) document.getElementById("app")?.append(part(app) ?? "");
    requestAnimationFrame(() => requestAnimationFrame(() => {
      performance.mark("memlens-drawn");
      root.dataset.ready = "true";
    }));
  } catch (error) {
    root.dataset.ready = "failed";
    document.getElementById("app")?.append(`This page could not be shown: ${error}`);
    throw error;
  }
}

main();
