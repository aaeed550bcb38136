// The address space on the y axis: the parts that a run used, one after the other, without gaps.

import { upperBound } from './pyramid';
import { Run } from './read';

export class SpaceLayout {
  private readonly starts: Float64Array;
  private readonly ends: Float64Array;
  private readonly offsets: Float64Array;
  /** Bytes from the lowest to the highest position. */
  readonly height: number;

  constructor(run: Run, device: number) {
    const { segments, blocks } = run;
    const parts: [number, number][] = [];
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== device || segments.address[i] < 0) continue;
      parts.push([segments.address[i], segments.address[i] + segments.bytes[i]]);
    }
    const bySegments = merged(parts);
    const outside: [number, number][] = [];
    for (let i = 0; i < blocks.count; i++) {
      if (blocks.device[i] !== device || blocks.address[i] < 0) continue;
      if (!within(bySegments, blocks.address[i])) {
        outside.push([blocks.address[i], blocks.address[i] + blocks.bytes[i]]);
      }
    }
    const all = outside.length ? merged([...bySegments, ...merged(outside)]) : bySegments;
    const total = all.reduce((sum, [start, end]) => sum + end - start, 0);
    const gap = all.length > 1 ? Math.min(total / 200, (total / all.length) * 0.15) : 0;
    this.starts = Float64Array.from(all, ([start]) => start);
    this.ends = Float64Array.from(all, ([, end]) => end);
    this.offsets = new Float64Array(all.length);
    let at = 0;
    for (let i = 0; i < all.length; i++) {
      this.offsets[i] = at;
      at += this.ends[i] - this.starts[i] + gap;
    }
    this.height = Math.max(0, at - gap);
  }

  get known(): boolean {
    return this.height > 0;
  }

  /** The position of an address; -1: unknown. */
  place(address: number): number {
    const i = upperBound(this.starts, address) - 1;
    return i < 0 ? -1 : this.offsets[i] + address - this.starts[i];
  }

  /** The address at a position; -1: a gap. */
  address(place: number): number {
    const i = upperBound(this.offsets, place) - 1;
    if (i < 0) return -1;
    const address = this.starts[i] + place - this.offsets[i];
    return address < this.ends[i] ? address : -1;
  }
}

function merged(parts: [number, number][]): [number, number][] {
  parts.sort((a, b) => a[0] - b[0]);
  const out: [number, number][] = [];
  for (const [start, end] of parts) {
    const last = out[out.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else out.push([start, end]);
  }
  return out;
}

function within(parts: [number, number][], address: number): boolean {
  let low = 0;
  let high = parts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (parts[middle][0] <= address) low = middle + 1;
    else high = middle;
  }
  return low > 0 && address < parts[low - 1][1];
}
