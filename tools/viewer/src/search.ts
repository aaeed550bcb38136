// The blocks that a search finds. All words must match:
//   stream:copy  tag:weights  site:forward  >64MiB  <4KiB  0x7f12a0000  live  freed  or any text of a name or a stack

import { Device } from './device';
import { parseSize } from './format';
import { Stacks, UNKNOWN } from './read';

export interface Matches {
  /** By position in `Device.order`. */
  found: Uint8Array;
  count: number;
  /** Their bytes that were live at the peak. */
  atPeak: number;
}

type Test = (k: number, block: number) => boolean;

export async function search(query: string, device: Device, stacks: Stacks): Promise<Matches | null> {
  const words = query.match(/[^\s"]*"[^"]*"|\S+/g);
  if (!words) return null;
  const tests = await Promise.all(words.map((word) => testOf(word.replace(/"/g, ''), device, stacks)));
  const found = new Uint8Array(device.order.length);
  let count = 0;
  let atPeak = 0;
  for (let k = 0; k < found.length; k++) {
    const block = device.order[k];
    if (!tests.every((test) => test(k, block))) continue;
    found[k] = 1;
    count++;
    if (device.begin[k] <= device.peak && device.end[k] > device.peak) atPeak += device.requested[k];
  }
  return { found, count, atPeak };
}

async function testOf(word: string, device: Device, stacks: Stacks): Promise<Test> {
  const { run } = device;
  const { blocks } = run;
  const [, key, text] = /^(stream|tag|site|block):(.*)$/i.exec(word) ?? ['', '', word];
  const lower = text.toLowerCase();
  const named = (names: string[]) => {
    const hit = names.map((name) => name.toLowerCase().includes(lower));
    return (index: number) => index !== UNKNOWN && hit[index];
  };
  const stream = named(run.streams.map(({ name }) => name));
  const tag = named(run.tags);
  const site = named(run.sites);
  switch (key.toLowerCase()) {
    case 'stream': {
      const exact = run.streams.findIndex(({ name, device: of }) => of === device.device && name.toLowerCase() === lower);
      return exact >= 0 ? (_, b) => blocks.stream[b] === exact : (_, b) => stream(blocks.stream[b]);
    }
    case 'tag':
      return (_, b) => tag(blocks.tag[b]);
    case 'site':
      return (_, b) => site(blocks.site[b]);
    case 'block':
      return (_, b) => b === Number(text);
  }
  if (lower === 'live') return (k) => device.end[k] >= run.events;
  if (lower === 'freed') return (k) => device.end[k] < run.events;
  const size = /^[<>=]/.test(text) ? parseSize(text.slice(1)) : null;
  if (size !== null) {
    if (text[0] === '>') return (_, b) => blocks.bytes[b] > size;
    if (text[0] === '<') return (_, b) => blocks.bytes[b] < size;
    return (_, b) => blocks.bytes[b] === size || blocks.requested[b] === size;
  }
  if (/^0x[0-9a-f]+$/.test(lower)) {
    const address = Number(lower);
    return (_, b) => blocks.address[b] >= 0 && blocks.address[b] <= address && address < blocks.address[b] + blocks.bytes[b];
  }
  const stack = stacks.count ? await stacks.matching(lower) : null;
  return (_, b) =>
    stream(blocks.stream[b]) || tag(blocks.tag[b]) || site(blocks.site[b]) ||
    (stack !== null && blocks.stack[b] !== UNKNOWN && stack[blocks.stack[b]] === 1);
}
