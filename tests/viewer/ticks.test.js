/** The scales of pictures: a handful of round figures, all of them in the picture, none left out between two. */

import assert from "node:assert/strict";
import test from "node:test";

import { bytesTicks, eventTicks, timeTicks } from "../../src/memlens/drawing/viewer/ticks.js";

const texts = (ticks) => ticks.map(({ text }) => text);

test("bytes have powers of two between them", () => {
  assert.deepEqual(texts(bytesTicks(0, 5 * 2 ** 20, 6)), ["0", "1 MiB", "2 MiB", "3 MiB", "4 MiB", "5 MiB"]);
  assert.deepEqual(texts(bytesTicks(0, 16 * 2 ** 30, 6)), ["0", "4 GiB", "8 GiB", "12 GiB", "16 GiB"]);
  assert.deepEqual(texts(bytesTicks(0, 1.5 * 2 ** 30, 6)), ["0", "0.25 GiB", "0.5 GiB", "0.75 GiB", "1 GiB", "1.25 GiB", "1.5 GiB"]);
  assert.deepEqual(texts(bytesTicks(0, 3, 6)), ["0", "1 B", "2 B", "3 B"]);
  assert.deepEqual(texts(bytesTicks(-2048, 2048, 4)), ["-2 KiB", "-1 KiB", "0", "1 KiB", "2 KiB"]);
});

test("times are counted from the start of the run, in the units of clocks", () => {
  const second = 1e6, minute = 60 * second, hour = 60 * minute;
  assert.deepEqual(texts(timeTicks(1000, 1000 + 4 * second, 4, 1000)), ["0", "1 s", "2 s", "3 s", "4 s"]);
  assert.deepEqual(texts(timeTicks(0, 2 * minute, 4, 0)), ["0", "30 s", "1 min", "1 min 30 s", "2 min"]);
  assert.deepEqual(texts(timeTicks(0, 4 * hour, 4, 0)), ["0", "1 h", "2 h", "3 h", "4 h"]);
  assert.deepEqual(texts(timeTicks(0, 72 * hour, 3, 0)), ["0", "1 d", "2 d", "3 d"]);
  assert.deepEqual(texts(timeTicks(0, 400, 4, 0)), ["0", "0.1 ms", "0.2 ms", "0.3 ms", "0.4 ms"]);
});

test("any stretch has a handful of ticks, one as far from the next as all others", () => {
  let state = 1;
  const chance = (below) => (state = (state * 48271) % 2147483647) % below;
  for (let round = 0; round < 3000; round += 1) {
    const from = chance(2 ** 30) * 2 ** chance(12), to = from + (1 + chance(2 ** 20)) * 2 ** chance(20);
    for (const ticks of [bytesTicks(from, to, 6), eventTicks(from, to, 8), timeTicks(from, to, 8, 0)]) {
      assert.ok(ticks.length <= 10, `${ticks.length} of ${from} to ${to}`);
      assert.ok(ticks.every(({ at }) => from <= at && at <= to));
      const steps = ticks.slice(1).map(({ at }, k) => at - ticks[k].at);
      if (steps.length) {
        assert.ok(Math.max(...steps) - Math.min(...steps) <= 1e-6 * steps[0]);
        assert.ok(ticks[0].at - from < steps[0] * (1 + 1e-9) && to - ticks[ticks.length - 1].at < steps[0] * (1 + 1e-9));
      }
    }
    assert.equal(new Set(texts(eventTicks(from, to, 8))).size, eventTicks(from, to, 8).length);
  }
});

test("no stretch, no ticks", () => {
  assert.deepEqual([bytesTicks(5, 5, 6), eventTicks(5, 5, 6), timeTicks(5, 5, 6, 0)], [[], [], []]);
});
