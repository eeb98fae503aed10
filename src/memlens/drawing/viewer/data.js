/** The data of the page: columns of integers and long lists of texts, unpacked. `memlens.drawing.page` packs them. */

/**
 * The bytes of base64, inflated.
 * @param {string} text
 * @returns {Promise<Uint8Array>}
 */
async function inflated(text) {
  const characters = atob(text), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * A column of integers from its differences in byte planes.
 * @param {Uint8Array} bytes
 * @param {number} n
 * @param {number} planes
 * @returns {Float64Array}
 */
export function column(bytes, n, planes) {
  const values = new Float64Array(n);
  for (let plane = 0, scale = 1; plane < planes; plane += 1, scale *= 256)
    for (let i = 0, at = plane * n; i < n; i += 1, at += 1) values[i] += bytes[at] * scale;
  for (let i = 0, value = 0; i < n; i += 1) {
    value += bytes[i] & 1 ? -(values[i] + 1) / 2 : values[i] / 2;
    values[i] = value;
  }
  return values;
}

/**
 * The same tree with everything in it unpacked that was packed.
 * @param {any} value
 * @returns {Promise<any>}
 */
export async function unpacked(value) {
  if (value === null || typeof value !== "object") return value;
  if (typeof value.packed === "string") return column(await inflated(value.packed), value.n, value.planes);
  if (typeof value.json === "string") return JSON.parse(new TextDecoder().decode(await inflated(value.json)));
  if (Array.isArray(value)) return Promise.all(value.map(unpacked));
  const entries = await Promise.all(Object.entries(value).map(async ([key, part]) => [key, await unpacked(part)]));
  return Object.fromEntries(entries);
}
