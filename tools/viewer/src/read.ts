// The data of the page as typed columns.

import { ColumnRef, numbers, text, wide } from './columns';

export const UNKNOWN = 0xffffffff;

type Columns<Names extends string> = Record<Names, ColumnRef>;

/** The parts of the page's data that a run takes over unchanged. */
interface RunFacts {
  name: string;
  meta: [string, string][];
  summary: { text: string; device: number | null }[];
  devices: number;
  events: number;
  streams: { device: number; name: string }[];
  tags: string[];
  names: string[];
  sites: string[];
  pools: string[];
  askers: Asker[];
  marks: Mark[];
  tables: Table[];
}

interface RunHeader extends RunFacts {
  event_word: string;
  knows_rounding: boolean;
  positions: ColumnRef | null;
  devices_of_events: ColumnRef | null;
  times: ColumnRef | null;
  blocks: Columns<
    | 'address' | 'bytes' | 'requested' | 'device' | 'stream' | 'allocated' | 'freed' | 'ready'
    | 'tag' | 'stack' | 'previous' | 'reuse' | 'site' | 'pool' | 'placed' | 'wait'
  >;
  segments: Columns<'address' | 'bytes' | 'device' | 'stream' | 'mapped' | 'unmapped' | 'pool' | 'expandable'>;
  free: Columns<'address' | 'bytes' | 'device' | 'stream' | 'from' | 'to'>;
  operations: Columns<'stream' | 'kind' | 'name' | 'begin' | 'end'>;
  arrows: Columns<'from_stream' | 'to_stream' | 'from' | 'to' | 'for_reuse'>;
  stacks: Columns<'frames' | 'ends' | 'indices'>;
  counters: { kind: string; name: string; device: number; at: ColumnRef; bytes: ColumnRef }[];
}

export interface Mark {
  kind: 'annotation' | 'out of memory' | 'peak' | 'step';
  text: string;
  begin: number;
  end: number;
  device: number | null;
  event: number | null;
}

/** The stream for which free memory of a device is examined. */
export interface Asker {
  device: number;
  stream: number;
  pool: number | null;
  /** Streams share free memory, which is in `Run.free`. */
  shares: boolean;
  /** Stranded memory is known only for this stream. */
  fixed: boolean;
}

export interface Table {
  title: string;
  device: number;
  cumulative: boolean;
  changes: boolean;
  rows: { label: string; bytes: number | null; note: string; emphasized: boolean; is_less: boolean }[];
}

export interface Blocks {
  count: number;
  address: Float64Array;
  bytes: Float64Array;
  requested: Float64Array;
  device: Uint32Array;
  stream: Uint32Array;
  allocated: Uint32Array;
  freed: Uint32Array;
  ready: Uint32Array;
  tag: Uint32Array;
  stack: Uint32Array;
  previous: Uint32Array;
  reuse: Uint32Array;
  site: Uint32Array;
  pool: Uint32Array;
  /** 1: it is in one of the segments. */
  placed: Uint32Array;
  /** The arrow of the wait that made its use of the memory safe. */
  wait: Uint32Array;
}

export interface Segments {
  count: number;
  address: Float64Array;
  bytes: Float64Array;
  device: Uint32Array;
  stream: Uint32Array;
  mapped: Uint32Array;
  unmapped: Uint32Array;
  pool: Uint32Array;
  expandable: Uint32Array;
}

/** Free memory that only one stream can use for a time. It exists where segments are not bound to
 * streams. */
export interface Free {
  count: number;
  address: Float64Array;
  bytes: Float64Array;
  device: Uint32Array;
  stream: Uint32Array;
  from: Uint32Array;
  to: Uint32Array;
}

export interface Operations {
  count: number;
  stream: Uint32Array;
  kind: Uint32Array;
  name: Uint32Array;
  begin: Float64Array;
  end: Float64Array;
}

export interface Arrows {
  count: number;
  fromStream: Uint32Array;
  toStream: Uint32Array;
  from: Float64Array;
  to: Float64Array;
  /** 1: drawn only for the block whose reuse it made safe. */
  forReuse: Uint32Array;
}

export interface Counter {
  kind: string;
  name: string;
  device: number;
  at: Float64Array;
  bytes: Float64Array;
}

export interface Run extends RunFacts {
  /** The user's word for an event: "event", "line". */
  eventWord: string;
  /** The user's number of each event; null: the same as here. */
  positions: Uint32Array | null;
  knowsRounding: boolean;
  devicesOfEvents: Uint32Array | null;
  /** Nanoseconds of each event since the first; null: the run has no times. */
  times: Float64Array | null;
  blocks: Blocks;
  segments: Segments;
  free: Free;
  operations: Operations;
  arrows: Arrows;
  stackRefs: RunHeader['stacks'];
  counters: Counter[];
}

async function readBlocks(h: RunHeader['blocks']): Promise<Blocks> {
  const [address, bytes, requested] = await Promise.all([wide(h.address), wide(h.bytes), wide(h.requested)]);
  const [device, stream, allocated, freed, ready, tag, stack, previous, reuse, site, pool, placed, wait] = await Promise.all(
    [h.device, h.stream, h.allocated, h.freed, h.ready, h.tag, h.stack, h.previous, h.reuse, h.site, h.pool, h.placed, h.wait].map(numbers),
  );
  return {
    count: bytes.length, address, bytes, requested, device, stream, allocated, freed, ready, tag, stack, previous, reuse,
    site, pool, placed, wait,
  };
}

async function readSegments(h: RunHeader['segments']): Promise<Segments> {
  const [address, bytes] = await Promise.all([wide(h.address), wide(h.bytes)]);
  const [device, stream, mapped, unmapped, pool, expandable] = await Promise.all(
    [h.device, h.stream, h.mapped, h.unmapped, h.pool, h.expandable].map(numbers),
  );
  return { count: bytes.length, address, bytes, device, stream, mapped, unmapped, pool, expandable };
}

async function readFree(h: RunHeader['free']): Promise<Free> {
  const [address, bytes] = await Promise.all([wide(h.address), wide(h.bytes)]);
  const [device, stream, from, to] = await Promise.all([h.device, h.stream, h.from, h.to].map(numbers));
  return { count: bytes.length, address, bytes, device, stream, from, to };
}

async function readOperations(h: RunHeader['operations']): Promise<Operations> {
  const [stream, kind, name] = await Promise.all([h.stream, h.kind, h.name].map(numbers));
  const [begin, end] = await Promise.all([wide(h.begin), wide(h.end)]);
  return { count: begin.length, stream, kind, name, begin, end };
}

async function readArrows(h: RunHeader['arrows']): Promise<Arrows> {
  const [fromStream, toStream, forReuse] = await Promise.all([h.from_stream, h.to_stream, h.for_reuse].map(numbers));
  const [from, to] = await Promise.all([wide(h.from), wide(h.to)]);
  return { count: from.length, fromStream, toStream, from, to, forReuse };
}

async function readRun(h: RunHeader): Promise<Run> {
  const [times, blocks, segments, free, operations, arrows] = await Promise.all([
    h.times ? wide(h.times) : null,
    readBlocks(h.blocks), readSegments(h.segments), readFree(h.free), readOperations(h.operations), readArrows(h.arrows),
  ]);
  const [positions, devicesOfEvents] = await Promise.all(
    [h.positions, h.devices_of_events].map((ref) => (ref ? numbers(ref) : null)),
  );
  const counters = await Promise.all(
    h.counters.map(async (c) => ({ ...c, at: await wide(c.at), bytes: await wide(c.bytes) })),
  );
  const { name, meta, summary, devices, events, streams, tags, names, sites, pools, askers, marks, tables } = h;
  return {
    name, meta, summary, devices, events, streams, tags, names, sites, pools, askers, eventWord: h.event_word, positions, knowsRounding: h.knows_rounding,
    devicesOfEvents, times, blocks, segments, free, operations, arrows, stackRefs: h.stacks, marks, counters, tables,
  };
}

/** The name of a device's last event at or before an event, as in the text of the command. */
export function eventName(run: Run, device: number, event: number): string {
  const { positions, devicesOfEvents } = run;
  let at = Math.min(event, run.events - 1);
  if (devicesOfEvents) while (at >= 0 && devicesOfEvents[at] !== device) at--;
  const position = positions ? positions[at] : at;
  if (at < 0 || position === undefined || position === UNKNOWN) return 'the beginning';
  return `${run.eventWord} ${position.toLocaleString('en-US')}`;
}

export async function readPage(): Promise<{ title: string; runs: Run[] }> {
  const header = JSON.parse(document.getElementById('header')!.textContent!);
  return { title: header.title, runs: await Promise.all(header.runs.map(readRun)) };
}

export type Frame = [string, string, number];

/** Stacks are decoded at the first request. */
export class Stacks {
  private parts: Promise<[Frame[], Uint32Array, Uint32Array]> | null = null;

  constructor(private readonly refs: RunHeader['stacks']) {}

  get count(): number {
    return this.refs.ends.count;
  }

  private read() {
    this.parts ??= Promise.all([
      text(this.refs.frames).then((json) => JSON.parse(json) as Frame[]),
      numbers(this.refs.ends), numbers(this.refs.indices),
    ]);
    return this.parts;
  }

  async frames(stack: number): Promise<Frame[]> {
    const [frames, ends, indices] = await this.read();
    const begin = stack === 0 ? 0 : ends[stack - 1];
    return Array.from(indices.subarray(begin, ends[stack]), (index) => frames[index]);
  }

  /** Marks the stacks that have a frame whose text contains `words` (in lower case). */
  async matching(words: string): Promise<Uint8Array> {
    const [frames, ends, indices] = await this.read();
    const hit = frames.map(([name, file, line]) => `${name} ${file}:${line}`.toLowerCase().includes(words));
    const found = new Uint8Array(ends.length);
    for (let stack = 0, at = 0; stack < ends.length; stack++) {
      for (; at < ends[stack]; at++) if (hit[indices[at]]) found[stack] = 1;
    }
    return found;
  }
}
