// A color for each block, and the legend.

import { Device } from './device';
import { Palette, pixel, ramp } from './palette';
import { UNKNOWN } from './read';
import { Coloring } from './state';
import { sizeText } from './format';

export type { Coloring };

export interface Colors {
  /** By position in `Device.order`, as canvas pixels. */
  pixels: Uint32Array;
  legend: { color: string; text: string }[];
}

export function colorsOf(device: Device, coloring: Coloring, palette: Palette): Colors {
  const { blocks, tags } = device.run;
  switch (coloring) {
    case 'stream': {
      const groups = device.streams.map((share) => share.name);
      const groupOf = new Map(device.streams.map((share, i) => [share.stream, i]));
      const other = groupOf.get(-1) ?? -1;
      return ranked(device, palette, groups, (block) => groupOf.get(blocks.stream[block]) ?? other);
    }
    case 'tag':
      return byPeak(device, palette, (block) => (blocks.tag[block] === UNKNOWN ? '' : tags[blocks.tag[block]]));
    case 'site':
      return byPeak(device, palette, (block) => siteOf(device, block));
    case 'age':
      return ramped(device, (k) => device.end[k] - device.begin[k], (value) => `${value.toLocaleString('en-US')} events`);
    case 'size':
      return ramped(device, (k) => blocks.bytes[device.order[k]], sizeText);
  }
}

/** The name of the site that allocated a block; "" if it is unknown. */
export function siteOf(device: Device, block: number): string {
  const site = device.run.blocks.site[block];
  return site === UNKNOWN ? '' : device.run.sites[site];
}

/** The color of a stream. It is the same in all tracks. */
export function streamColor(palette: Palette, group: number, stream: number): string {
  return stream < 0 ? palette.other : palette.series[group % palette.series.length];
}

function ranked(device: Device, palette: Palette, groups: string[], groupOf: (block: number) => number): Colors {
  const color = (group: number) => streamColor(palette, group, device.streams[group].stream);
  const colors = groups.map((_, group) => pixel(color(group)));
  const other = pixel(palette.other);
  const pixels = Uint32Array.from(device.order, (block) => colors[groupOf(block)] ?? other);
  return { pixels, legend: groups.map((text, group) => ({ color: color(group), text })) };
}

/** The names with the most memory at the peak have their own colors. */
function byPeak(device: Device, palette: Palette, nameOf: (block: number) => string): Colors {
  const names = new Map<string, number>();
  const ids = Uint32Array.from(device.order, (block) => {
    const name = nameOf(block);
    let id = names.get(name);
    if (id === undefined) names.set(name, (id = names.size));
    return id;
  });
  const atPeak = new Float64Array(names.size);
  const { blocks } = device.run;
  for (let k = 0; k < ids.length; k++) {
    const held = device.begin[k] <= device.peak && device.end[k] > device.peak;
    atPeak[ids[k]] += blocks.bytes[device.order[k]] * (held ? 1 : 1e-9);
  }
  const texts = [...names.keys()];
  const order = [...atPeak.keys()].filter((id) => texts[id]).sort((a, b) => atPeak[b] - atPeak[a]);
  const shown = order.slice(0, palette.series.length);
  const colors = new Uint32Array(names.size).fill(pixel(palette.other));
  shown.forEach((id, rank) => (colors[id] = pixel(palette.series[rank])));
  const legend = shown.map((id, rank) => ({ color: palette.series[rank], text: texts[id] }));
  const rest = names.size - shown.length;
  if (rest > 0) {
    const unknown = names.has('') ? (rest === 1 ? 'not known' : `${rest - 1} others, or not known`) : `${rest} others`;
    legend.push({ color: palette.other, text: unknown });
  }
  return { pixels: Uint32Array.from(ids, (id) => colors[id]), legend };
}

function ramped(device: Device, valueOf: (k: number) => number, text: (value: number) => string): Colors {
  const count = device.order.length;
  const STEPS = 64;
  const colors = Array.from({ length: STEPS }, (_, i) => pixel(ramp(i / (STEPS - 1))));
  let least = Infinity;
  let most = 1;
  for (let k = 0; k < count; k++) {
    const value = Math.max(1, valueOf(k));
    if (value < least) least = value;
    if (value > most) most = value;
  }
  const low = Math.log(Math.min(least, most));
  const span = Math.log(most) - low || 1;
  const pixels = new Uint32Array(count);
  for (let k = 0; k < count; k++) {
    pixels[k] = colors[Math.round(((Math.log(Math.max(1, valueOf(k))) - low) / span) * (STEPS - 1))];
  }
  const legend = [0, 0.25, 0.5, 0.75, 1].map((part) => ({
    color: ramp(part), text: text(Math.round(Math.exp(low + part * span))),
  }));
  return { pixels, legend };
}
