// Finds the block that had the memory of another block before or after.

import { Device } from './device';
import { UNKNOWN } from './read';

/** Indexed by the kinds of PageReuse. */
export const REUSE_TEXT = [
  'not known why it was safe',
  'no block had this memory before',
  'the same stream used it before',
  'the streams were ordered: by an event, a synchronization or a wait',
  'the earlier use was known to be complete',
];

/** The last earlier block that shares memory with `block`; -1: none, or addresses are unknown. */
export function previousOwner(device: Device, block: number): number {
  const { blocks } = device.run;
  if (blocks.previous[block] !== UNKNOWN) return blocks.previous[block];
  return neighbor(device, block, (k, other) => other < k);
}

export function nextOwner(device: Device, block: number): number {
  return neighbor(device, block, (k, other) => other > k);
}

function neighbor(device: Device, block: number, side: (k: number, other: number) => boolean): number {
  const { blocks } = device.run;
  const low = blocks.address[block];
  if (low < 0) return -1;
  const high = low + blocks.bytes[block];
  const k = device.positionOf(block);
  const step = side(k, k + 1) ? 1 : -1;
  // The previous block is the last that was freed earlier. The next block is the first that was
  // allocated later.
  let best = -1;
  let bestEnd = -1;
  for (let i = k + step; i >= 0 && i < device.order.length; i += step) {
    const other = device.order[i];
    const address = blocks.address[other];
    if (address < 0 || address >= high || address + blocks.bytes[other] <= low) continue;
    if (step > 0) return device.begin[i] >= device.end[k] ? other : best;
    if (device.end[i] <= device.begin[k] && device.end[i] > bestEnd) {
      best = other;
      bestEnd = device.end[i];
    }
  }
  return best;
}
