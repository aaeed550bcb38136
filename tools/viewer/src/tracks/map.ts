// The address space over time. A block is a rectangle of its addresses and its lifetime. The rest
// of its segment is free, free for one stream only, or waits for work that still uses it.

import { App } from '../app';
import { siteOf } from '../colors';
import { sizeText } from '../format';
import { mixed, pixel } from '../palette';
import { previousOwner } from '../reuse';
import { UNKNOWN } from '../read';
import { fitted, GUTTER, Track } from './track';

const MOST_LABELS = 120;
/** Below this part of a pixel, only every eighth block is drawn, with eight times the weight. */
const SMALL = 1 / 8;

export class MapTrack extends Track {
  constructor(app: App) {
    super(app, 'Address space over time', 'map');
  }

  /** Raster pixels per byte, and the byte at the bottom. */
  private scale(height: number) {
    const { state, device } = this.app;
    const { height: bytes } = device.space;
    return { bottom: state.y0 * bytes, perByte: height / ((state.y1 - state.y0) * bytes) };
  }

  protected paint() {
    const { app, context } = this;
    const { device } = app;
    if (!device.space.known) {
      this.label('Addresses', 10, { bold: true });
      context.fillStyle = app.palette.faint;
      context.fillText('This trace has no addresses.', GUTTER + 8, this.height / 2);
      return;
    }
    const raster = this.pixels();
    raster.clear(pixel(app.palette.background));
    this.paintSegments();
    this.paintFree();
    this.paintBlocks();
    this.show(raster);
    context.fillStyle = app.palette.grid;
    context.fillRect(GUTTER, 0, this.width, 1);
    this.label('Addresses', 10, { bold: true });
    const shown = (app.state.y1 - app.state.y0) * device.space.height;
    this.label(sizeText(shown), 26, { faint: true });
    this.paintNames();
    this.paintSelection();
  }

  private paintSegments() {
    const { app } = this;
    const { device, run, palette, axis, state } = app;
    const { segments } = run;
    const raster = this.pixels();
    const { bottom, perByte } = this.scale(raster.height);
    const perX = raster.width / (state.x1 - state.x0);
    const free = pixel(palette.free);
    const bound = pixel(mixed(palette.stranded, palette.background, 0.72));
    const lines = pixel(palette.stranded);
    const edge = pixel(palette.background);
    for (let i = 0; i < segments.count; i++) {
      if (segments.device[i] !== device.device || segments.address[i] < 0) continue;
      const from = segments.mapped[i] === UNKNOWN ? 0 : axis.ofEvent(run, segments.mapped[i]);
      const to = axis.ofEvent(run, segments.unmapped[i] === UNKNOWN ? run.events : segments.unmapped[i]);
      if (to < state.x0 || from > state.x1) continue;
      const place = device.space.place(segments.address[i]);
      const y1 = raster.height - (place - bottom) * perByte;
      let y0 = y1 - segments.bytes[i] * perByte;
      if (y1 < 0 || y0 > raster.height) continue;
      if (y1 - y0 < SMALL) {
        if (i % 8) continue;
        y0 = y1 - (y1 - y0) * 8;
      }
      const x0 = (from - state.x0) * perX;
      const x1 = (to - state.x0) * perX;
      const stranded = device.isStranded(segments.stream[i], segments.pool[i], state.asker);
      raster.fill(x0, y0, x1, y1, stranded ? bound : free);
      if (stranded) raster.hatch(x0, y0, x1, y1, lines, 8);
      if (y1 - y0 > 5) raster.fill(x0, y0, x1, y0 + 1, edge);
    }
  }

  /** If segments are not bound to streams: draws free memory whose last user is another stream than
   * the asker. */
  private paintFree() {
    const { app } = this;
    const { device, run, palette, axis, state } = app;
    const { free } = run;
    const raster = this.pixels();
    const { bottom, perByte } = this.scale(raster.height);
    const perX = raster.width / (state.x1 - state.x0);
    const back = pixel(mixed(palette.stranded, palette.background, 0.72));
    const lines = pixel(palette.stranded);
    for (let i = 0; i < free.count; i++) {
      if (free.device[i] !== device.device || free.stream[i] === state.asker) continue;
      const [from, to] = [axis.ofEvent(run, free.from[i]), axis.ofEvent(run, free.to[i])];
      if (to < state.x0 || from > state.x1) continue;
      const y1 = raster.height - (device.space.place(free.address[i]) - bottom) * perByte;
      const y0 = y1 - free.bytes[i] * perByte;
      if (y1 < 0 || y0 > raster.height) continue;
      const [x0, x1] = [(from - state.x0) * perX, (to - state.x0) * perX];
      raster.fill(x0, y0, x1, y1, back);
      raster.hatch(x0, y0, x1, y1, lines, 8);
    }
  }

  private paintBlocks() {
    const { app } = this;
    const { device, run, palette, axis, state, matches } = app;
    const { bytes } = run.blocks;
    const { order, places } = device;
    const { begin: begins, end: ends, ready: readies } = device;
    const raster = this.pixels();
    const { bottom, perByte } = this.scale(raster.height);
    const colors = app.blockColors().pixels;
    const found = matches?.found ?? null;
    const dim = pixel(palette.dim);
    const waiting = pixel(palette.waiting);
    const waitingBack = pixel(mixed(palette.waiting, palette.background, 0.65));
    const gap = 3 * this.ratio;
    const columns = app.columnsOf(state.run, raster.width);
    const { first, base, count } = columns;
    const past = base + first.length;
    const columnOf = (event: number) => (event <= base ? 0 : event >= past ? count : first[event - base]);
    device.eachRange(axis, state.x0, state.x1, (from, to) => {
      for (let k = from; k < to; k++) {
        const left = columnOf(begins[k]);
        const right = columnOf(ends[k]);
        const last = readies[k] > ends[k] ? columnOf(readies[k]) : right;
        const place = places[k];
        if (last <= left || place < 0) continue;
        const y1 = raster.height - (place - bottom) * perByte;
        let y0 = y1 - bytes[order[k]] * perByte;
        if (y1 - y0 < SMALL) {
          if (k % 8) continue;
          y0 = y1 - (y1 - y0) * 8;
        }
        if (y1 < 0 || y0 > raster.height) continue;
        if (right > left) {
          const tall = y1 - y0 > gap;
          const color = found && !found[k] ? dim : colors[k];
          const edge = right - left > gap && right < count ? 1 : 0;
          raster.fillColumns(left, right - edge, tall ? y0 + 1 : y0, y1, color);
        }
        if (last > right) {
          raster.fillColumns(right, last, y0, y1, waitingBack);
          raster.hatch(right, y0, last, y1, waiting, 6);
        }
      }
    });
  }

  /** The rectangle of a block in CSS pixels. */
  private box(k: number) {
    const { app } = this;
    const { device, axis } = app;
    const { begin, end } = device.placed(axis);
    const block = device.order[k];
    const { bottom, perByte } = this.scale(this.height);
    const bytes = app.run.blocks.bytes[block];
    const y1 = this.height - (device.places[k] - bottom) * perByte;
    return { x0: this.px(begin[k]), x1: this.px(end[k]), y0: y1 - bytes * perByte, y1 };
  }

  /** Draws names in the blocks that have room for them. */
  private paintNames() {
    const { app, context } = this;
    const { device, run, axis, state } = app;
    const { bytes } = run.blocks;
    const { begin, end } = device.placed(axis);
    const leastBytes = (15 / this.height) * (state.y1 - state.y0) * device.space.height;
    const leastX = (56 / this.width) * (state.x1 - state.x0);
    let left = MOST_LABELS;
    context.font = '10.5px system-ui, sans-serif';
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    device.eachRange(axis, state.x0, state.x1, (from, to) => {
      for (let k = from; k < to && left > 0; k++) {
        const block = device.order[k];
        if (bytes[block] < leastBytes || end[k] - begin[k] < leastX || end[k] < state.x0 || begin[k] > state.x1) continue;
        if (run.blocks.address[block] < 0) continue;
        const box = this.box(k);
        const x0 = Math.max(box.x0, GUTTER);
        const x1 = Math.min(box.x1, GUTTER + this.width);
        const y0 = Math.max(box.y0, 0);
        const y1 = Math.min(box.y1, this.height);
        if (x1 - x0 < 56 || y1 - y0 < 14) continue;
        left--;
        const name = this.nameOf(block);
        const text = fitted(context, name ? `${sizeText(bytes[block])} ${name}` : sizeText(bytes[block]), x1 - x0 - 10);
        context.fillStyle = inkOn(app.blockColors().pixels[k]);
        context.fillText(text, x0 + 5, (y0 + y1) / 2);
      }
    });
  }

  private nameOf(block: number): string {
    const { app } = this;
    const { tag } = app.run.blocks;
    return tag[block] !== UNKNOWN ? app.run.tags[tag[block]] : siteOf(app.device, block);
  }

  private paintSelection() {
    const { app, context } = this;
    const { block, place } = app.state;
    if (block < 0 && place < 0) return;
    const previous = block < 0 ? -1 : previousOwner(app.device, block);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width, this.height);
    context.clip();
    for (const [shown, dash] of [[previous, [4, 3]], [block, []]] as [number, number[]][]) {
      const k = shown < 0 ? -1 : app.device.positionOf(shown);
      if (k < 0 || app.run.blocks.address[shown] < 0) continue;
      const { x0, x1, y0, y1 } = this.box(k);
      this.outline(x0, x1, y0, y1, dash);
    }
    this.paintPlace();
    context.restore();
  }

  private outline(x0: number, x1: number, y0: number, y1: number, dash: number[]) {
    const { app, context } = this;
    const [w, h] = [Math.max(x1 - x0, 3), Math.max(y1 - y0, 3)];
    context.setLineDash(dash);
    context.lineWidth = 4;
    context.strokeStyle = app.palette.background;
    context.strokeRect(x0 - 1, y0 - 1, w + 2, h + 2);
    context.lineWidth = 2;
    context.strokeStyle = app.palette.selection;
    context.strokeRect(x0 - 1, y0 - 1, w + 2, h + 2);
  }

  /** Outlines the selected free range for as long as it is free. If the selection is not free
   * memory, outlines the segment. */
  private paintPlace() {
    const { app } = this;
    const found = app.selectedPlace;
    if (!found) return;
    const { run, axis, device } = app;
    const { segments } = run;
    const i = found.segment;
    const [low, high] = found.free ? [found.low, found.high] : [segments.address[i], segments.address[i] + segments.bytes[i]];
    const [from, to] = found.free ? [found.since, found.until] : [segments.mapped[i], segments.unmapped[i]];
    const { bottom, perByte } = this.scale(this.height);
    const y1 = this.height - (device.space.place(low) - bottom) * perByte;
    const y0 = y1 - (high - low) * perByte;
    const x0 = this.px(axis.ofEvent(run, from === UNKNOWN ? 0 : from));
    const x1 = this.px(axis.ofEvent(run, to === UNKNOWN ? run.events : Math.min(to, run.events)));
    this.outline(x0, x1, y0, y1, found.free ? [2, 2] : []);
  }

  /** The block at a point of the canvas, in CSS pixels; -1: none. Small blocks near the point
   * count. */
  blockAt(px: number, py: number): number {
    const { app } = this;
    const { device, axis, run } = app;
    if (!device.space.known || px < GUTTER) return -1;
    const reach = 2.5;
    const x = this.xAt(px);
    const xReach = (reach / this.width) * (app.state.x1 - app.state.x0);
    const { bottom, perByte } = this.scale(this.height);
    const place = bottom + (this.height - py) / perByte;
    const { begin, end, ready } = device.placed(axis);
    const { bytes } = run.blocks;
    let best = -1;
    let bestDistance = Infinity;
    device.eachRange(axis, x - xReach, x + xReach, (from, to) => {
      for (let k = from; k < to; k++) {
        const block = device.order[k];
        const last = Math.max(end[k], ready[k]);
        const low = device.places[k];
        if (low < 0 || begin[k] > x + xReach || last < x - xReach) continue;
        const dy = Math.max(low - place, place - low - bytes[block], 0) * perByte;
        if (dy > reach) continue;
        const dx = (Math.max(begin[k] - x, x - last, 0) / (app.state.x1 - app.state.x0)) * this.width;
        const distance = dx + dy;
        if (distance < bestDistance) {
          bestDistance = distance;
          best = block;
        }
      }
    });
    return best;
  }

  addressAt(py: number): number {
    const { bottom, perByte } = this.scale(this.height);
    return this.app.device.space.address(bottom + (this.height - py) / perByte);
  }
}

/** Black or white, whichever is easier to read on the color. */
function inkOn(color: number): string {
  const [r, g, b] = [color & 0xff, (color >>> 8) & 0xff, (color >>> 16) & 0xff];
  return r * 0.3 + g * 0.59 + b * 0.11 > 140 ? '#101418' : '#ffffff';
}
