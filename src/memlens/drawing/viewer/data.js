/** The data of the page: columns of integers and long lists of texts, unpacked. `memlens.drawing.packing` packs them. */

/** The digits of base 85, as the page has them, and the number of each by its code. */
const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=:?@^_`{|}~", DIGIT = new Uint8Array(128);
for (let k = 0; k < DIGITS.length; k += 1) DIGIT[DIGITS.charCodeAt(k)] = k;

/**
 * The bytes of base 85, inflated.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
async function inflated(text) {
  const bytes = new DataView(new ArrayBuffer(Math.ceil(text.length / 5) * 4)), whole = text.padEnd((bytes.byteLength / 4) * 5, "~");
  for (let i = 0, at = 0; i < whole.length; i += 5, at += 4) {
    let word = 0;
    for (let k = i; k < i + 5; k += 1) word = word * 85 + DIGIT[whole.charCodeAt(k)];
    bytes.setUint32(at, word);
  }
  const stream = new Blob([new Uint8Array(bytes.buffer, 0, Math.floor((text.length * 4) / 5))]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * A column of integers from its numbers in byte planes.
 * @param {{ n: number, planes: number, packed: string, unit?: number, plain?: boolean, table?: any }} from
 * @param {Float64Array} [near] what its values are less
 * @returns {Promise<Float64Array>}
 */
async function column({ n, planes, packed, unit = 1, plain = false, table }, near) {
  const bytes = await inflated(packed), kinds = table && await column(table), values = new Float64Array(n);
  for (let plane = 0, scale = 1; plane < planes; plane += 1, scale *= 256)
    for (let i = 0, at = plane * n; i < n; i += 1, at += 1) values[i] += bytes[at] * scale;
  for (let i = 0, value = 0; i < n; i += 1) {
    const number = (bytes[i] & 1 ? -(values[i] + 1) / 2 : values[i] / 2) * unit;
    value = plain ? number : value + number;
    values[i] = kinds ? kinds[value] : near ? value + near[i] : value;
  }
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
