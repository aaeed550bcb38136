// Memory at an address after an event where no block is: free memory and its segment.

import { Device } from './device';
import { UNKNOWN } from './read';

export type Passing = 'usable' | 'taken again' | 'given back';

export interface Place {
  segment: number;
  /** Whether the address is free. Otherwise it belongs to a live or waiting block. */
  free: boolean;
  /** The free range in the segment that contains the address. */
  low: number;
  high: number;
  /** The block that last had the address; -1: none since the segment was reserved. */
  user: number;
  /** Events: since when the whole range has been free (UNKNOWN: since before the first event), and
   * when a block takes a part of it (UNKNOWN: not in the run). */
  since: number;
  until: number;
  /** The stream that can use the address without waiting; UNKNOWN: see `open`. */
  stream: number;
  /** Whether every stream that can be selected as asker may use the address. */
  open: boolean;
  /** If streams share free memory: the event at which the address stops being free only for
   * `stream`, and why. */
  passes: number;
  passing: Passing;
}

/** Returns null if the address is not reserved after the event. */
export function placeAt(device: Device, address: number, event: number): Place | null {
  const { blocks, segments } = device.run;
  const segment = device.segmentAt(address, event);
  if (segment < 0) return null;
  const place: Place = {
    segment, free: true, low: segments.address[segment], high: segments.address[segment] + segments.bytes[segment],
    user: -1, since: segments.mapped[segment], until: segments.unmapped[segment], stream: segments.stream[segment],
    open: false, passes: UNKNOWN, passing: 'usable',
  };
  for (let k = 0; k < device.order.length && device.begin[k] <= event; k++) {
    if (Math.max(device.end[k], device.ready[k]) <= event) continue;
    const low = blocks.address[device.order[k]];
    const high = low + blocks.bytes[device.order[k]];
    if (low < 0) continue;
    if (low <= address && address < high) place.free = false;
    else if (high <= address) place.low = Math.max(place.low, high);
    else place.high = Math.min(place.high, low);
  }
  if (!place.free) return place;
  place.user = device.lastUser(address, event);
  place.since = lastEnd(device, place, event);
  place.until = Math.min(place.until, nextTaken(device, place.low, place.high, event));
  if (device.shared) sharedWith(device, place, address, event);
  return place;
}

/** The event at which the last block of a free range ended, or the segment was reserved. */
function lastEnd(device: Device, { segment, low, high }: Place, event: number): number {
  const { blocks, segments } = device.run;
  const mapped = segments.mapped[segment];
  const first = mapped === UNKNOWN ? 0 : mapped;
  let last = mapped;
  for (let k = 0; k < device.order.length && device.begin[k] <= event; k++) {
    const address = blocks.address[device.order[k]];
    if (device.begin[k] < first || address < 0 || address >= high || address + blocks.bytes[device.order[k]] <= low) continue;
    const end = Math.max(device.end[k], device.ready[k]);
    if (last === UNKNOWN || end > last) last = end;
  }
  return last;
}

/** The first later event at which a block has a part of a range; UNKNOWN: none. */
function nextTaken(device: Device, low: number, high: number, event: number): number {
  const { blocks } = device.run;
  for (let k = 0; k < device.order.length; k++) {
    if (device.begin[k] <= event) continue;
    const address = blocks.address[device.order[k]];
    if (address >= 0 && address < high && address + blocks.bytes[device.order[k]] > low) return device.begin[k];
  }
  return UNKNOWN;
}

function sharedWith(device: Device, place: Place, address: number, event: number) {
  const { blocks, free, segments } = device.run;
  // If only one stream can be selected, `free` has all memory that this stream cannot use.
  place.open = device.asker?.fixed === true && (place.user < 0 || blocks.stream[place.user] !== UNKNOWN);
  for (let i = 0; i < free.count; i++) {
    if (free.device[i] !== device.device || free.from[i] > event || free.to[i] <= event) continue;
    if (address < free.address[i] || address >= free.address[i] + free.bytes[i]) continue;
    place.open = false;
    place.stream = free.stream[i];
    place.passes = free.to[i];
    const taken = nextTaken(device, free.address[i], free.address[i] + free.bytes[i], event);
    const unmapped = segments.unmapped[place.segment];
    place.passing = place.passes < Math.min(taken, unmapped) ? 'usable' : taken <= unmapped ? 'taken again' : 'given back';
  }
}

/** The blocks of a segment that are live after an event. */
export function liveIn(device: Device, segment: number, event: number): { count: number; bytes: number } {
  const { blocks, segments } = device.run;
  const low = segments.address[segment];
  const high = low + segments.bytes[segment];
  const live = { count: 0, bytes: 0 };
  for (let k = 0; k < device.order.length && device.begin[k] <= event; k++) {
    const address = blocks.address[device.order[k]];
    const end = address + blocks.bytes[device.order[k]];
    if (device.end[k] <= event || address < 0 || address >= high || end <= low) continue;
    live.count++;
    live.bytes += Math.min(high, end) - Math.max(low, address);
  }
  return live;
}
