// Reads the columns of the page. tools/millrace/page/columns.hpp describes the encoding.

export interface ColumnRef {
  column: number;
  type: 'u32' | 'i64' | 'text';
  count: number;
}

/** The amount of data read so far. Checks of large pages count it instead of measuring times. */
export const read = { columns: 0, bytes: 0 };

type Transform = ReadableWritablePair<Uint8Array, BufferSource>;

/** Browsers have it since 2023. */
const Inflate = (globalThis as unknown as { DecompressionStream?: new (format: string) => Transform }).DecompressionStream;

function bytesOf(ref: ColumnRef) {
  const text = atob(document.getElementById(`column-${ref.column}`)!.textContent!);
  const bytes = new Uint8Array(new ArrayBuffer(text.length));
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflated(ref: ColumnRef): Promise<Uint8Array> {
  read.columns++;
  if (!Inflate) throw new Error('the browser cannot decompress the data');
  const stream = new Blob([bytesOf(ref)]).stream().pipeThrough(new Inflate('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads numbers up to 32 bits; 0xffffffff stands for unknown. */
export async function numbers(ref: ColumnRef): Promise<Uint32Array> {
  const bytes = await inflated(ref);
  const n = ref.count;
  const values = new Uint32Array(n);
  read.bytes += values.byteLength;
  let last = 0;
  for (let i = 0; i < n; i++) {
    const code = bytes[i] | (bytes[n + i] << 8) | (bytes[2 * n + i] << 16) | (bytes[3 * n + i] << 24);
    last = (last + ((code >>> 1) ^ -(code & 1))) >>> 0;
    values[i] = last;
  }
  return values;
}

/** Reads sizes, addresses and times, which doubles represent exactly; -1 stands for unknown. */
export async function wide(ref: ColumnRef): Promise<Float64Array> {
  const bytes = await inflated(ref);
  const n = ref.count;
  const values = new Float64Array(n);
  read.bytes += values.byteLength;
  let last = 0;
  for (let i = 0; i < n; i++) {
    const low = (bytes[i] | (bytes[n + i] << 8) | (bytes[2 * n + i] << 16) | (bytes[3 * n + i] << 24)) >>> 0;
    const high =
      (bytes[4 * n + i] | (bytes[5 * n + i] << 8) | (bytes[6 * n + i] << 16) | (bytes[7 * n + i] << 24)) >>> 0;
    const half = high * 2147483648 + (low >>> 1);
    last += low & 1 ? -half - 1 : half;
    values[i] = last;
  }
  return values;
}

export async function text(ref: ColumnRef): Promise<string> {
  return new TextDecoder().decode(await inflated(ref));
}
