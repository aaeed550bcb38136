// The data of the page, as typed columns.

import { ColumnRef, numbers, text, wide } from './columns';

export const UNKNOWN = 0xffffffff;

type Columns<Names extends string> = Record<Names, ColumnRef>;

/** What is the same in the page's data and in a run that was read from it. */
interface RunFacts {
  name: string;
  meta: [string, string][];
  summary: string[];
  devices: number;
  events: number;
  streams: { device: number; name: string }[];
  tags: string[];
  names: string[];
  marks: Mark[];
  tables: Table[];
}

interface RunHeader extends RunFacts {
  times: ColumnRef | null;
  blocks: Columns<
    | 'address' | 'bytes' | 'requested' | 'device' | 'stream' | 'allocated' | 'freed' | 'ready'
    | 'tag' | 'stack' | 'previous' | 'reuse'
  >;
  segments: Columns<'address' | 'bytes' | 'device' | 'stream' | 'mapped' | 'unmapped' | 'label'>;
  operations: Columns<'stream' | 'kind' | 'name' | 'begin' | 'end'>;
  arrows: Columns<'from_stream' | 'to_stream' | 'from' | 'to' | 'by_allocator'>;
  stacks: Columns<'frames' | 'ends' | 'indices'>;
  counters: {
    kind: string; name: string; device: number; stream: number | null; at: ColumnRef; bytes: ColumnRef;
  }[];
}

export interface Mark {
  kind: 'annotation' | 'out of memory' | 'peak' | 'step';
  text: string;
  begin: number;
  end: number;
  device: number | null;
}

export interface Table {
  title: string;
  device: number;
  cumulative: boolean;
  rows: { label: string; bytes: number | null; note: string; emphasized: boolean }[];
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
}

export interface Segments {
  count: number;
  address: Float64Array;
  bytes: Float64Array;
  device: Uint32Array;
  stream: Uint32Array;
  mapped: Uint32Array;
  unmapped: Uint32Array;
  label: Uint32Array;
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
  byAllocator: Uint32Array;
}

export interface Counter {
  kind: string;
  name: string;
  device: number;
  stream: number | null;
  at: Float64Array;
  bytes: Float64Array;
}

export interface Run extends RunFacts {
  /** Nanoseconds of each event from the first; null: the run has no times. */
  times: Float64Array | null;
  blocks: Blocks;
  segments: Segments;
  operations: Operations;
  arrows: Arrows;
  stackRefs: RunHeader['stacks'];
  counters: Counter[];
}

async function readBlocks(h: RunHeader['blocks']): Promise<Blocks> {
  const [address, bytes, requested] = await Promise.all([wide(h.address), wide(h.bytes), wide(h.requested)]);
  const [device, stream, allocated, freed, ready, tag, stack, previous, reuse] = await Promise.all(
    [h.device, h.stream, h.allocated, h.freed, h.ready, h.tag, h.stack, h.previous, h.reuse].map(numbers),
  );
  return {
    count: bytes.length, address, bytes, requested, device, stream, allocated, freed, ready, tag, stack, previous, reuse,
  };
}

async function readSegments(h: RunHeader['segments']): Promise<Segments> {
  const [address, bytes] = await Promise.all([wide(h.address), wide(h.bytes)]);
  const [device, stream, mapped, unmapped, label] = await Promise.all(
    [h.device, h.stream, h.mapped, h.unmapped, h.label].map(numbers),
  );
  return { count: bytes.length, address, bytes, device, stream, mapped, unmapped, label };
}

async function readOperations(h: RunHeader['operations']): Promise<Operations> {
  const [stream, kind, name] = await Promise.all([h.stream, h.kind, h.name].map(numbers));
  const [begin, end] = await Promise.all([wide(h.begin), wide(h.end)]);
  return { count: begin.length, stream, kind, name, begin, end };
}

async function readArrows(h: RunHeader['arrows']): Promise<Arrows> {
  const [fromStream, toStream, byAllocator] = await Promise.all(
    [h.from_stream, h.to_stream, h.by_allocator].map(numbers),
  );
  const [from, to] = await Promise.all([wide(h.from), wide(h.to)]);
  return { count: from.length, fromStream, toStream, from, to, byAllocator };
}

async function readRun(h: RunHeader): Promise<Run> {
  const [times, blocks, segments, operations, arrows] = await Promise.all([
    h.times ? wide(h.times) : Promise.resolve(null),
    readBlocks(h.blocks), readSegments(h.segments), readOperations(h.operations), readArrows(h.arrows),
  ]);
  const counters = await Promise.all(
    h.counters.map(async (c) => ({ ...c, at: await wide(c.at), bytes: await wide(c.bytes) })),
  );
  const { name, meta, summary, devices, events, streams, tags, names, marks, tables } = h;
  return {
    name, meta, summary, devices, events, streams, tags, names, times, blocks, segments, operations, arrows,
    stackRefs: h.stacks, marks, counters, tables,
  };
}

export async function readPage(): Promise<{ title: string; runs: Run[] }> {
  const header = JSON.parse(document.getElementById('header')!.textContent!);
  return { title: header.title, runs: await Promise.all(header.runs.map(readRun)) };
}

export type Frame = [string, string, number];

/** Stacks are decoded when the first of them is asked for. */
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

  /** Which stacks have a frame whose text contains `words`, in lower case. */
  async matching(words: string): Promise<Uint8Array> {
    const [frames, ends, indices] = await this.read();
    const hit = frames.map(([name, file, line]) => `${name} ${file}:${line}`.toLowerCase().includes(words));
    const found = new Uint8Array(ends.length);
    for (let stack = 0, at = 0; stack < ends.length; stack++) {
      for (; at < ends[stack]; at++) if (hit[indices[at]]) found[stack] = 1;
    }
    return found;
  }

  /** A short name of each stack: its innermost frame that is not of an allocator or a framework's core. */
  async labels(): Promise<string[]> {
    const [frames, ends, indices] = await this.read();
    return Array.from(ends, (end, stack) => {
      const begin = stack === 0 ? 0 : ends[stack - 1];
      const all = Array.from(indices.subarray(begin, end), (index) => frames[index]);
      const own = all.find(([, file]) => file.endsWith('.py') && !/\/(torch|site-packages|dist-packages)\//.test(file));
      const best = own ?? all.find(([, file]) => file.endsWith('.py')) ?? all[0];
      return best ? frameText(best) : '';
    });
  }
}

export function frameText([name, file, line]: Frame): string {
  const place = file ? `${file.split('/').slice(-2).join('/')}${line ? `:${line}` : ''}` : '';
  return name && place ? `${name} · ${place}` : name || place;
}
