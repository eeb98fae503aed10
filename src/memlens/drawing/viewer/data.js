/** The data of the page: columns of integers and long lists of texts, unpacked. `memlens.drawing.page` packs them. */

/** The digits of base 85, as the page has them, and the number of each by its code. */
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=:?@^_`{|}~", DIGIT = new Uint8Array(128);
for (let k = 0; k < DIGITS.length; k += 1) DIGIT[DIGITS.charCodeAt(k)] = k;

/**
 * The bytes of base 85, inflated.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
async function inflated(text) {
  const words = Math.ceil(text.length / 5), bytes = new Uint8Array(words * 4), whole = text.padEnd(words * 5, "~");
  for (let i = 0, at = 0; at < bytes.length; i += 5, at += 4) {
    let word = DIGIT[whole.charCodeAt(i)];
    for (let k = 1; k < 5; k += 1) word = word * 85 + DIGIT[whole.charCodeAt(i + k)];
    bytes[at] = word >>> 24;
    bytes[at + 1] = word >>> 16;
    bytes[at + 2] = word >>> 8;
    bytes[at + 3] = word;
  }
  const { writable, readable } = new DecompressionStream("deflate"), writer = writable.getWriter();
  writer.write(bytes.subarray(0, Math.floor((text.length * 4) / 5)));
  writer.close();
  return new Uint8Array(await new Response(readable).arrayBuffer());
}

/**
 * A column of integers from its numbers in byte planes.
 * @param {{ n: number, planes: number, packed: string, unit?: number, plain?: boolean, table?: any }} from
 * @param {Float64Array} [near] what its values are less
 * @returns {Promise<Float64Array>}
 */
async function column({ n, planes, packed, unit = 1, plain = false, table }, near) {
  const bytes = await inflated(packed), kinds = table && await column(table), values = Float64Array.from(bytes.subarray(0, n));
  for (let plane = 1, scale = 256; plane < planes; plane += 1, scale *= 256)
    for (let i = 0, at = plane * n; i < n; i += 1, at += 1) values[i] += bytes[at] * scale;
  for (let i = 0, before = 0; i < n; i += 1) {
    const number = (bytes[i] & 1 ? -(values[i] + 1) / 2 : values[i] / 2) * unit;
    values[i] = plain ? number : before += number;
  }
  if (kinds) for (let i = 0; i < n; i += 1) values[i] = kinds[values[i]];
  if (near) for (let i = 0; i < n; i += 1) values[i] += near[i];
  return values;
}

/**
 * The same tree with everything in it unpacked that was packed.
 * @param {any} value
 * @param {Record<string, Promise<any>>} [beside] what stands beside it, by its name
 * @returns {Promise<any>}
 */
export async function unpacked(value, beside = {}) {
  if (value === null || typeof value !== "object") return value;
  if (typeof value.packed === "string") return column(value, await beside[value.near]);
  if (typeof value.json === "string") return JSON.parse(new TextDecoder().decode(await inflated(value.json)));
  if (Array.isArray(value)) return Promise.all(value.map((one) => unpacked(one)));
  const parts = /** @type {typeof beside} */ ({});
  for (const [key, part] of Object.entries(value)) parts[key] = unpacked(part, parts);
  return Object.fromEntries(await Promise.all(Object.entries(parts).map(async ([key, part]) => [key, await part])));
}
