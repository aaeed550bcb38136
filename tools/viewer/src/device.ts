// The memory of one device of a run, event by event, and the positions of its blocks on the axis.

import { Axis } from './axis';
import { Pyramid } from './pyramid';
import { Asker, Run, UNKNOWN } from './read';
import { SpaceLayout } from './space';

const CHUNK = 256;

/** Values after each event; null: unknown. */
export interface Levels {
  /** Requested bytes of live blocks. */
  live: Float64Array;
  /** Bytes of live blocks, with rounding. */
  held: Float64Array;
  /** Bytes of held blocks, and of freed blocks that their stream cannot use yet. */
  active: Float64Array;
  reserved: Float64Array | null;
}

export interface StreamShare {
  stream: number; // -1: all other streams
  name: string;
  peak: number;
  live: Float32Array;
  /** Cached bytes that only this stream can use; null: free memory is not bound to streams. */
  free: Float32Array | null;
}

/** Free bytes that a stream cannot use, after each event. */
export interface Stranded {
  /** In memory of other streams. */
  stream: Float64Array;
  /** In other pools; null: only one pool exists. */
  pool: Float64Array | null;
}

export class Device {
  /** Indices of the run's blocks, in the order of their allocation. */
  readonly order: Uint32Array;
  readonly begin: Uint32Array;
  readonly end: Uint32Array;
  readonly ready: Uint32Array;
  readonly levels: Levels;
  readonly streams: StreamShare[];
  readonly space: SpaceLayout;
  /** Position of each block's memory in `space`; -1: unknown. */
  readonly places: Float64Array;
  readonly peak: number; // an event
  /** Requested bytes of each block, by position in `order`. If unknown, the block's size. */
  readonly requested: Float64Array;
  /** The stream for which stranded memory is shown by default; null: unknown. */
  readonly asker: Asker | null;
  /** Streams that have memory. The user may select one as the asker. */
  readonly holding: number[];
  readonly knowsStranded: boolean;
  /** Number of blocks that the current picture has visited. */
  visited = 0;
  private strandedFor: { asker: number; levels: Stranded | null } = { asker: NaN, levels: null };
  readonly waits: boolean; // whether the run knows when freed memory became usable
  readonly rounds: boolean; // whether sizes of blocks are known, not only requested bytes
  private poolFor = { asker: NaN, pool: UNKNOWN };
  private moved: Uint32Array | null = null;
  livePyramid: Pyramid;
  reservedPyramid: Pyramid | null;
  private x: { axis: Axis; begin: Float64Array; end: Float64Array; ready: Float64Array; chunks: Float64Array } | null =
    null;

  constructor(readonly run: Run, readonly device: number) {
    this.order = ordered(run, device);
    const { blocks, events } = run;
    const pick = (column: Uint32Array, unknown: (i: number) => number) => {
      const out = new Uint32Array(this.order.length);
      for (let k = 0; k < out.length; k++) {
        const value = column[this.order[k]];
        out[k] = value === UNKNOWN ? unknown(k) : value;
      }
      return out;
    };
    this.begin = pick(blocks.allocated, () => 0);
    this.end = pick(blocks.freed, () => events);
    this.ready = pick(blocks.ready, (k) => this.end[k]);
    this.waits = this.order.some((block) => blocks.ready[block] !== UNKNOWN);
    this.requested = Float64Array.from(this.order, (block) =>
      blocks.requested[block] < 0 ? blocks.bytes[block] : blocks.requested[block]);
    this.rounds = run.knowsRounding;
    this.levels = this.sums();
    this.asker = run.askers.find((asker) => asker.device === device) ?? null;
    const bound = run.segments.device.some((of, i) => of === device && run.segments.stream[i] !== UNKNOWN);
    this.knowsStranded = this.levels.reserved !== null && (bound || this.shared);
    this.holding = this.streamsByMemory();
    this.streams = this.shares();
    this.space = new SpaceLayout(run, device);
    this.places = Float64Array.from(this.order, (block) =>
      blocks.address[block] < 0 ? -1 : this.space.place(blocks.address[block]));
    this.livePyramid = new Pyramid(this.levels.live);
    this.reservedPyramid = this.levels.reserved && new Pyramid(this.levels.reserved);
    this.peak = this.findPeak();
  }

  private sums(): Levels {
    const { blocks, segments, events } = this.run;
    const size = events + 1;
    const live = new Float64Array(size);
    const held = new Float64Array(size);
    const active = new Float64Array(size);
    for (let k = 0; k < this.order.length; k++) {
      const bytes = blocks.bytes[this.order[k]];
      live[this.begin[k]] += this.requested[k];
      held[this.begin[k]] += bytes;
      active[this.begin[k]] += bytes;
      live[this.end[k]] -= this.requested[k];
      held[this.end[k]] -= bytes;
      active[this.ready[k]] -= bytes;
    }
    let reserved: Float64Array | null = null;
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== this.device) continue;
      reserved ??= new Float64Array(size);
      reserved[segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i]] += segments.bytes[i];
      if (segments.unmapped[i] !== UNKNOWN) reserved[segments.unmapped[i]] -= segments.bytes[i];
    }
    const levels = [live, held, active, ...(reserved ? [reserved] : [])].map((deltas) => {
      let sum = 0;
      for (let i = 0; i < events; i++) deltas[i] = sum += deltas[i];
      return deltas.subarray(0, Math.max(events, 1));
    });
    return { live: levels[0], held: levels[1], active: levels[2], reserved: levels[3] ?? this.sampled('reserved') };
  }

  /** A counter's value after each event; null: no such counter. */
  private sampled(kind: string): Float64Array | null {
    const { run } = this;
    const counter = run.counters.find((c) => c.kind === kind && c.device === this.device);
    if (!counter) return null;
    const values = new Float64Array(Math.max(run.events, 1));
    for (let event = 0, at = -1; event < values.length; event++) {
      const clock = run.times ? run.times[event] : event;
      while (at + 1 < counter.at.length && counter.at[at + 1] <= clock) at++;
      values[event] = at < 0 || counter.bytes[at] < 0 ? NaN : counter.bytes[at];
    }
    return values;
  }

  /** Streams with segments or blocks, in descending order of memory. */
  private streamsByMemory(): number[] {
    const { blocks, segments, streams } = this.run;
    const held = new Float64Array(streams.length);
    for (let k = 0; k < this.order.length; k++) {
      const stream = blocks.stream[this.order[k]];
      if (stream !== UNKNOWN) held[stream] += blocks.bytes[this.order[k]];
    }
    for (let i = 0; i < segments.count; i++) {
      const stream = segments.stream[i];
      if (segments.device[i] === this.device && stream !== UNKNOWN) held[stream] += segments.bytes[i] * 1e3;
    }
    if (this.asker) held[this.asker.stream] = Infinity;
    return [...streams.keys()].filter((i) => streams[i].device === this.device && held[i] > 0)
      .sort((a, b) => (held[a] === held[b] ? a - b : held[b] - held[a]));
  }

  private shares(): StreamShare[] {
    const { blocks, segments, streams, events, free: frees } = this.run;
    const SHOWN = 7;
    const ranked = this.holding;
    const shown = ranked.length > SHOWN + 1 ? ranked.slice(0, SHOWN) : ranked;
    const groups = shown.map((i) => ({ stream: i, name: streams[i].name }));
    if (ranked.length > shown.length) {
      groups.push({ stream: -1, name: `${ranked.length - shown.length} other streams` });
    }
    const groupOf = new Int32Array(streams.length).fill(groups.length - 1);
    groups.forEach(({ stream }, group) => stream >= 0 && (groupOf[stream] = group));
    const size = events + 1;
    const live = groups.map(() => new Float64Array(size));
    const free = this.knowsStranded ? groups.map(() => new Float64Array(size)) : null;
    const bound = free !== null && !this.shared;
    for (let k = 0; k < this.order.length; k++) {
      const stream = blocks.stream[this.order[k]];
      if (stream === UNKNOWN) continue;
      const group = groupOf[stream];
      live[group][this.begin[k]] += this.requested[k];
      live[group][this.end[k]] -= this.requested[k];
      if (!free || !bound || !blocks.placed[this.order[k]]) continue;
      free[group][this.begin[k]] -= blocks.bytes[this.order[k]];
      free[group][this.ready[k]] += blocks.bytes[this.order[k]];
    }
    for (let i = 0; free && bound && i < segments.count; i++) {
      if (segments.device[i] !== this.device || segments.stream[i] === UNKNOWN) continue;
      const group = groupOf[segments.stream[i]];
      free[group][segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i]] += segments.bytes[i];
      if (segments.unmapped[i] !== UNKNOWN) free[group][segments.unmapped[i]] -= segments.bytes[i];
    }
    for (let i = 0; free && !bound && i < frees.count; i++) {
      if (frees.device[i] !== this.device) continue;
      free[groupOf[frees.stream[i]]][frees.from[i]] += frees.bytes[i];
      free[groupOf[frees.stream[i]]][frees.to[i]] -= frees.bytes[i];
    }
    const summed = (deltas: Float64Array) => Float32Array.from(added(deltas, Math.max(events, 1)));
    return groups.map(({ stream, name }, group) => {
      const values = summed(live[group]);
      let peak = 0;
      for (let i = 0; i < values.length; i++) if (values[i] > peak) peak = values[i];
      return { stream, name, peak, live: values, free: free && summed(free[group]) };
    });
  }

  /** Whether streams share free memory, so that segments are not bound to them. */
  get shared(): boolean {
    return this.asker?.shares === true;
  }

  /** The pool of a stream's requests: the pool of the peak's request, otherwise the pool in which
   * the stream has most memory. */
  poolOf(stream: number): number {
    if (this.asker?.stream === stream) return this.asker.pool ?? UNKNOWN;
    const { segments } = this.run;
    const held = new Map<number, number>();
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== this.device || segments.stream[i] !== stream) continue;
      held.set(segments.pool[i], (held.get(segments.pool[i]) ?? 0) + segments.bytes[i]);
    }
    return [...held].sort((a, b) => b[1] - a[1])[0]?.[0] ?? UNKNOWN;
  }

  /** Free bytes that `asker` cannot use; null: unknown. */
  strandedLevels(asker: number): Stranded | null {
    if (!this.knowsStranded || asker < 0) return null;
    if (this.strandedFor.asker !== asker) this.strandedFor = { asker, levels: this.strandedSums(asker) };
    return this.strandedFor.levels;
  }

  private strandedSums(asker: number): Stranded {
    const { blocks, segments, free, pools, events } = this.run;
    const own = this.poolOf(asker);
    const stream = new Float64Array(events + 1);
    const pool = pools.length ? new Float64Array(events + 1) : null;
    const shared = this.shared;
    /** The sum to which free memory of a stream and pool belongs; null: none. */
    const place = (of: number, in_: number) =>
      pool && in_ !== own ? pool : !shared && of !== UNKNOWN && of !== asker ? stream : null;
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== this.device) continue;
      const sums = place(segments.stream[i], segments.pool[i]);
      if (!sums) continue;
      sums[segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i]] += segments.bytes[i];
      if (segments.unmapped[i] !== UNKNOWN) sums[segments.unmapped[i]] -= segments.bytes[i];
    }
    for (let k = 0; k < this.order.length; k++) {
      const block = this.order[k];
      if (!blocks.placed[block]) continue;
      const sums = place(blocks.stream[block], blocks.pool[block]);
      if (!sums) continue;
      sums[this.begin[k]] -= blocks.bytes[block];
      sums[this.ready[k]] += blocks.bytes[block];
    }
    for (let i = 0; i < free.count; i++) {
      if (free.device[i] !== this.device || free.stream[i] === asker) continue;
      stream[free.from[i]] += free.bytes[i];
      stream[free.to[i]] -= free.bytes[i];
    }
    const count = Math.max(events, 1);
    return { stream: added(stream, count), pool: pool && added(pool, count) };
  }

  private findPeak(): number {
    const marked = this.run.marks.find(
      (mark) => mark.kind === 'peak' && (mark.device === null || mark.device === this.device),
    );
    if (marked && marked.event !== null) return marked.event;
    if (marked) return Math.max(0, new Axis(this.run.times ? 'time' : 'events', [this.run]).eventAt(this.run, marked.begin));
    const { live, reserved } = this.levels;
    let best = 0;
    for (let i = 1; i < live.length; i++) {
      const more = reserved ? reserved[i] - reserved[best] : 0;
      if (more > 0 || (more === 0 && live[i] > live[best])) best = i;
    }
    return best;
  }

  /** Whether the asker cannot use a segment's free memory. */
  isStranded(stream: number, pool: number, asker: number): boolean {
    if (!this.knowsStranded) return false;
    return pool !== this.ownPool(asker) || (!this.shared && stream !== UNKNOWN && stream !== asker);
  }

  private ownPool(asker: number): number {
    if (this.poolFor.asker !== asker) this.poolFor = { asker, pool: this.poolOf(asker) };
    return this.poolFor.pool;
  }

  /** Free bytes of other streams at an event; null: unknown. */
  stranded(event: number, asker: number): number | null {
    return this.strandedLevels(asker)?.stream[event] ?? null;
  }

  /** Free bytes of other pools at an event; null: unknown, or only one pool exists. */
  inOtherPools(event: number, asker: number): number | null {
    return this.strandedLevels(asker)?.pool?.[event] ?? null;
  }

  /** The segment that contains an address after an event; -1: none. */
  segmentAt(address: number, event: number): number {
    const { segments } = this.run;
    for (let i = 0; i < segments.count; i++) {
      const low = segments.address[i];
      if (segments.device[i] !== this.device || low < 0 || address < low || address >= low + segments.bytes[i]) continue;
      const mapped = segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i];
      if (mapped <= event && (segments.unmapped[i] === UNKNOWN || segments.unmapped[i] > event)) return i;
    }
    return -1;
  }

  /** The block that last had a free address; -1: none since the segment was reserved. */
  lastUser(address: number, event: number): number {
    const { blocks, segments } = this.run;
    const segment = this.segmentAt(address, event);
    const since = segment < 0 || segments.mapped[segment] === UNKNOWN ? 0 : segments.mapped[segment];
    let last = -1;
    for (let k = 0; k < this.order.length && this.begin[k] <= event; k++) {
      const block = this.order[k];
      const low = blocks.address[block];
      if (this.begin[k] >= since && low >= 0 && low <= address && address < low + blocks.bytes[block]) last = block;
    }
    return last;
  }

  placed(axis: Axis) {
    if (this.x?.axis !== axis) {
      const begin = axis.ofEvents(this.run, this.begin);
      const end = axis.ofEvents(this.run, this.end);
      const ready = axis.ofEvents(this.run, this.ready);
      const chunks = new Float64Array(Math.ceil(ready.length / CHUNK));
      for (let k = 0; k < ready.length; k++) {
        const chunk = (k / CHUNK) | 0;
        if (ready[k] > chunks[chunk]) chunks[chunk] = ready[k];
        if (end[k] > chunks[chunk]) chunks[chunk] = end[k];
      }
      this.x = { axis, begin, end, ready, chunks };
    }
    return this.x;
  }

  /** Calls `visit(from, to)` for ranges of `order` that may have blocks within [x0, x1]. All other
   * blocks are skipped without a look at each. */
  eachRange(axis: Axis, x0: number, x1: number, visit: (from: number, to: number) => void) {
    const { begin, chunks } = this.placed(axis);
    let low = 0;
    let high = begin.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (begin[middle] <= x1) low = middle + 1;
      else high = middle;
    }
    for (let chunk = 0; chunk * CHUNK < low; chunk++) {
      if (chunks[chunk] < x0) continue;
      const to = Math.min(low, (chunk + 1) * CHUNK);
      this.visited += to - chunk * CHUNK;
      visit(chunk * CHUNK, to);
    }
  }

  /** Positions of blocks whose memory an earlier block of another stream had. */
  get movedBetweenStreams(): Uint32Array {
    const { previous, stream } = this.run.blocks;
    return (this.moved ??= Uint32Array.from(this.order.keys()).filter((k) => {
      const block = this.order[k];
      return previous[block] !== UNKNOWN && stream[previous[block]] !== stream[block];
    }));
  }

  /** The position of a block in `order`. */
  positionOf(block: number): number {
    return this.order[block] === block ? block : this.order.indexOf(block);
  }
}

/** Turns differences into running sums. */
function added(deltas: Float64Array, count: number): Float64Array {
  let sum = 0;
  for (let i = 0; i < count; i++) deltas[i] = sum += deltas[i];
  return deltas.subarray(0, count);
}

function ordered(run: Run, device: number): Uint32Array {
  const { blocks } = run;
  const own = new Uint32Array(blocks.count);
  let count = 0;
  let ascending = true;
  let last = 0;
  for (let i = 0; i < blocks.count; i++) {
    if (blocks.device[i] !== device) continue;
    const at = blocks.allocated[i] === UNKNOWN ? 0 : blocks.allocated[i];
    if (at < last) ascending = false;
    last = at;
    own[count++] = i;
  }
  const order = own.slice(0, count);
  if (ascending) return order;
  const at = (i: number) => (blocks.allocated[i] === UNKNOWN ? -1 : blocks.allocated[i]);
  return order.sort((a, b) => at(a) - at(b) || a - b);
}
