/** Rows of tables in order, and those that a filter keeps. */

import assert from "node:assert/strict";
import test from "node:test";

import { filteredRows, sortedRows } from "../../src/memlens/drawing/viewer/grid.js";

test("figures are sorted by their value, and equal ones stay in the order of the log", () => {
  const values = Float64Array.of(5, 100, 5, -7, 20);
  assert.deepEqual(sortedRows([0, 1, 2, 3, 4], values, true), [1, 4, 0, 2, 3]);
  assert.deepEqual(sortedRows([0, 1, 2, 3, 4], values, false), [3, 0, 2, 4, 1]);
  assert.deepEqual(sortedRows([0, 1, 2], Float64Array.of(3, Infinity, Infinity), true), [1, 2, 0]);
});

test("names are sorted by the numbers in them", () => {
  const names = ["STEP 10", "STEP 9", "EPOCH 1", "STEP 9 #2"];
  assert.deepEqual(sortedRows([0, 1, 2, 3], names, false).map((row) => names[row]), ["EPOCH 1", "STEP 9", "STEP 9 #2", "STEP 10"]);
});

test("a filter keeps the rows that hold all of its words, in any column", () => {
  const texts = [["STEP 1", "STEP 2", "EVAL 1"], ["relu", "conv", "RELU"]];
  assert.deepEqual(filteredRows(texts, 3, ""), [0, 1, 2]);
  assert.deepEqual(filteredRows(texts, 3, "step"), [0, 1]);
  assert.deepEqual(filteredRows(texts, 3, " 1  relu "), [0, 2]);
  assert.deepEqual(filteredRows(texts, 3, "<b>"), []);
  assert.deepEqual(filteredRows([], 2, "x"), []);
});
