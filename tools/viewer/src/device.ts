// What one device of a run held, event by event, and where its blocks are on the axis.

import { Axis } from './axis';
import { Pyramid } from './pyramid';
import { Run, UNKNOWN } from './read';
import { SpaceLayout } from './space';

const CHUNK = 256;

/** Values after each event; null: not known. */
export interface Levels {
  live: Float64Array;
  /** Live, or freed and not yet usable. */
  active: Float64Array;
  reserved: Float64Array | null;
}

export interface StreamShare {
  stream: number; // -1: all others
  name: string;
  peak: number;
  live: Float32Array;
  /** Cached bytes that serve this stream only; null: free memory is not bound to streams. */
  free: Float32Array | null;
}

export class Device {
  /** Indices of the run's blocks, by the event at which they were allocated. */
  readonly order: Uint32Array;
  readonly begin: Uint32Array;
  readonly end: Uint32Array;
  readonly ready: Uint32Array;
  readonly levels: Levels;
  readonly streams: StreamShare[];
  readonly space: SpaceLayout;
  /** Of each block, where its memory is in `space`; -1: not known. */
  readonly places: Float64Array;
  readonly peak: number; // an event
  private readonly strandedCounter: Float64Array | null;
  /** The stream that stranded bytes were counted for; null: they follow from the segments' streams. */
  readonly countedFor: number | null;
  readonly waits: boolean; // whether it is known when freed memory became usable
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
    this.levels = this.sums();
    this.strandedCounter = this.sampled('stranded');
    this.countedFor = run.counters.find((c) => c.kind === 'stranded' && c.device === device)?.stream ?? null;
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
    const active = new Float64Array(size);
    for (let k = 0; k < this.order.length; k++) {
      const bytes = blocks.bytes[this.order[k]];
      live[this.begin[k]] += bytes;
      active[this.begin[k]] += bytes;
      live[this.end[k]] -= bytes;
      active[this.ready[k]] -= bytes;
    }
    let reserved: Float64Array | null = null;
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== this.device) continue;
      reserved ??= new Float64Array(size);
      reserved[segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i]] += segments.bytes[i];
      if (segments.unmapped[i] !== UNKNOWN) reserved[segments.unmapped[i]] -= segments.bytes[i];
    }
    const levels = [live, active, ...(reserved ? [reserved] : [])].map((deltas) => {
      let sum = 0;
      for (let i = 0; i < events; i++) deltas[i] = sum += deltas[i];
      return deltas.subarray(0, Math.max(events, 1));
    });
    return { live: levels[0], active: levels[1], reserved: levels[2] ?? this.sampled('reserved') };
  }

  /** A counter's value after each event; null: there is no such counter. */
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

  private shares(): StreamShare[] {
    const { blocks, segments, streams, events } = this.run;
    const SHOWN = 7;
    const own = streams.map((stream, i) => ({ i, stream })).filter(({ stream }) => stream.device === this.device);
    const held = new Float64Array(streams.length);
    let bound = false;
    for (let k = 0; k < this.order.length; k++) {
      const stream = blocks.stream[this.order[k]];
      if (stream !== UNKNOWN) held[stream] += blocks.bytes[this.order[k]];
    }
    for (let i = 0; i < segments.count; i++) {
      const stream = segments.stream[i];
      if (segments.device[i] !== this.device || stream === UNKNOWN) continue;
      held[stream] += segments.bytes[i] * 1e3; // streams that have segments come first
      bound = true;
    }
    const ranked = own.filter(({ i }) => held[i] > 0).sort((a, b) => held[b.i] - held[a.i]);
    const shown = ranked.length > SHOWN + 1 ? ranked.slice(0, SHOWN) : ranked;
    const groups = shown.map(({ i, stream }) => ({ stream: i, name: stream.name }));
    if (ranked.length > shown.length) {
      groups.push({ stream: -1, name: `${ranked.length - shown.length} other streams` });
    }
    const groupOf = new Int32Array(streams.length).fill(groups.length - 1);
    groups.forEach(({ stream }, group) => stream >= 0 && (groupOf[stream] = group));
    const size = events + 1;
    const live = groups.map(() => new Float64Array(size));
    const free = bound ? groups.map(() => new Float64Array(size)) : null;
    for (let k = 0; k < this.order.length; k++) {
      const stream = blocks.stream[this.order[k]];
      if (stream === UNKNOWN) continue;
      const group = groupOf[stream];
      const bytes = blocks.bytes[this.order[k]];
      live[group][this.begin[k]] += bytes;
      live[group][this.end[k]] -= bytes;
      if (!free) continue;
      free[group][this.begin[k]] -= bytes;
      free[group][this.ready[k]] += bytes;
    }
    for (let i = 0; free && i < segments.count; i++) {
      if (segments.device[i] !== this.device || segments.stream[i] === UNKNOWN) continue;
      const group = groupOf[segments.stream[i]];
      free[group][segments.mapped[i] === UNKNOWN ? 0 : segments.mapped[i]] += segments.bytes[i];
      if (segments.unmapped[i] !== UNKNOWN) free[group][segments.unmapped[i]] -= segments.bytes[i];
    }
    const summed = (deltas: Float64Array) => {
      const out = new Float32Array(Math.max(events, 1));
      let sum = 0;
      for (let i = 0; i < events; i++) out[i] = sum += deltas[i];
      return out;
    };
    return groups.map(({ stream, name }, group) => {
      const values = summed(live[group]);
      let peak = 0;
      for (let i = 0; i < values.length; i++) if (values[i] > peak) peak = values[i];
      return { stream, name, peak, live: values, free: free && summed(free[group]) };
    });
  }

  private findPeak(): number {
    const marked = this.run.marks.find(
      (mark) => mark.kind === 'peak' && (mark.device === null || mark.device === this.device),
    );
    if (marked) return Math.max(0, new Axis(this.run.times ? 'time' : 'events', [this.run]).eventAt(this.run, marked.begin));
    const { live, reserved } = this.levels;
    let best = 0;
    for (let i = 1; i < live.length; i++) {
      const more = reserved ? reserved[i] - reserved[best] : 0;
      if (more > 0 || (more === 0 && live[i] > live[best])) best = i;
    }
    return best;
  }

  get knowsStranded(): boolean {
    return this.strandedCounter !== null || this.streams.some((share) => share.free);
  }

  /** Cached bytes at an event that serve other streams than `asker` only; null: not known. */
  stranded(event: number, asker: number): number | null {
    if (this.strandedCounter) return Number.isNaN(this.strandedCounter[event]) ? null : this.strandedCounter[event];
    if (!this.streams.some((share) => share.free)) return null;
    let sum = 0;
    for (const share of this.streams) if (share.stream !== asker && share.free) sum += Math.max(0, share.free[event]);
    return sum;
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

  /** Calls `visit(from, to)` for ranges of `order` in which blocks may be within [x0, x1]: all others are left out
   *  before anything is drawn. */
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
      if (chunks[chunk] >= x0) visit(chunk * CHUNK, Math.min(low, (chunk + 1) * CHUNK));
    }
  }

  /** Positions of blocks whose memory a block of another stream had before. */
  get movedBetweenStreams(): Uint32Array {
    const { previous, stream } = this.run.blocks;
    return (this.moved ??= Uint32Array.from(this.order.keys()).filter((k) => {
      const block = this.order[k];
      return previous[block] !== UNKNOWN && stream[previous[block]] !== stream[block];
    }));
  }

  /** Position in `order` of a block. */
  positionOf(block: number): number {
    return this.order[block] === block ? block : this.order.indexOf(block);
  }
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
