// A lane per stream: operations and waits if the run has them, above the stream's live bytes.
// Arrows show the order between streams, and the reuse of memory.

import { App } from '../app';
import { Axis } from '../axis';
import { streamColor } from '../colors';
import { countText, sizeText } from '../format';
import { mixed, pixel } from '../palette';
import { lowerBound } from '../pyramid';
import { previousOwner } from '../reuse';
import { Run, UNKNOWN } from '../read';
import { fitted, GUTTER, Track } from './track';

const LANE = 46;
const WORK = 24; // part of LANE, for operations
const MOST_WAITS = 400;
const MOST_REUSES = 100;
const MOST_LABELS = 300;
export const OPERATION_KINDS = ['kernel', 'copy', 'fill', 'callback', 'wait', 'other'];

interface Lane {
  stream: number;
  group: number;
  name: string;
  /** Operations in the order of their begins. */
  operations: Uint32Array;
}

/** Positions of a lane's operations, or of the arrows, on the axis. */
interface Places {
  begin: Float64Array;
  end: Float64Array;
  /** The greatest end up to each item. */
  latest: Float64Array;
}

export class Lanes extends Track {
  private places: { axis: Axis | null; run: Run | null; lanes: Map<Lane, Places>; arrows: Places | null } =
    { axis: null, run: null, lanes: new Map(), arrows: null };
  private notes: string[] = [];
  private counts: Record<string, number> = {};
  private lanes: { run: Run; device: number; lanes: Lane[] } | null = null;

  constructor(app: App) {
    super(app, 'Streams', 'lanes');
  }

  protected wantedHeight(): number {
    return Math.max(1, this.all().length) * LANE + 8;
  }

  private all(): Lane[] {
    const { app } = this;
    if (this.lanes?.run === app.run && this.lanes.device === app.device.device) return this.lanes.lanes;
    const { run, device } = app;
    const { operations } = run;
    const byStream = new Map<number, number[]>();
    for (let i = 0; i < operations.count; i++) {
      if (run.streams[operations.stream[i]].device !== device.device) continue;
      const list = byStream.get(operations.stream[i]);
      if (list) list.push(i);
      else byStream.set(operations.stream[i], [i]);
    }
    const lanes: Lane[] = device.streams.map((share, group) => ({
      stream: share.stream, group, name: share.name, operations: new Uint32Array(),
    }));
    for (const [stream, list] of byStream) {
      list.sort((a, b) => operations.begin[a] - operations.begin[b]);
      const lane = lanes.find((lane) => lane.stream === stream);
      if (lane) lane.operations = Uint32Array.from(list);
      else lanes.push({ stream, group: -1, name: run.streams[stream].name, operations: Uint32Array.from(list) });
    }
    lanes.sort((a, b) => (a.stream < 0 ? 1 : b.stream < 0 ? -1 : a.stream - b.stream));
    this.lanes = { run, device: device.device, lanes };
    return lanes;
  }

  private placed(begins: Float64Array, ends: Float64Array, order: Uint32Array | null): Places {
    const { axis, run } = this.app;
    const count = order ? order.length : begins.length;
    const places = { begin: new Float64Array(count), end: new Float64Array(count), latest: new Float64Array(count) };
    for (let i = 0, latest = 0; i < count; i++) {
      const from = order ? order[i] : i;
      places.begin[i] = axis.ofClock(run, begins[from]);
      places.end[i] = axis.ofClock(run, ends[from]);
      places.latest[i] = latest = Math.max(latest, places.end[i]);
    }
    return places;
  }

  private current() {
    const { axis, run } = this.app;
    if (this.places.axis !== axis || this.places.run !== run) this.places = { axis, run, lanes: new Map(), arrows: null };
    return this.places;
  }

  private placesOf(lane: Lane): Places {
    const { lanes } = this.current();
    const { begin, end } = this.app.run.operations;
    let places = lanes.get(lane);
    if (!places) lanes.set(lane, (places = this.placed(begin, end, lane.operations)));
    return places;
  }

  private placesOfArrows(): Places {
    const { from, to } = this.app.run.arrows;
    const current = this.current();
    return (current.arrows ??= this.placed(from, to, null));
  }

  private laneOf(stream: number): number {
    const lanes = this.all();
    const exact = lanes.findIndex((lane) => lane.stream === stream);
    return exact >= 0 ? exact : lanes.findIndex((lane) => lane.stream < 0);
  }

  protected paint() {
    const { app, context } = this;
    const raster = this.pixels();
    raster.clear(pixel(app.palette.background));
    const lanes = this.all();
    lanes.forEach((lane, i) => {
      this.paintBytes(lane, i * LANE);
      this.paintOperations(lane, i * LANE);
    });
    this.show(raster);
    lanes.forEach((lane, i) => this.paintHead(lane, i * LANE));
    lanes.forEach((lane, i) => this.paintNames(lane, i * LANE));
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width, this.height);
    context.clip();
    this.notes = [];
    this.counts = {};
    this.paintWaits();
    this.paintReuse();
    this.paintNotes();
    context.restore();
  }

  private paintHead(lane: Lane, top: number) {
    const { context, app } = this;
    context.fillStyle = app.palette.grid;
    context.fillRect(GUTTER, top, this.width, 1);
    context.fillStyle = lane.group < 0 ? app.palette.other : streamColor(app.palette, lane.group, lane.stream);
    context.fillRect(0, top + 6, 4, LANE - 12);
    this.label(lane.name, top + 15, { bold: lane.stream === app.state.asker });
    const share = app.device.streams[lane.group];
    if (share) this.label(`≤ ${sizeText(share.peak)}`, top + 31, { faint: true });
  }

  private paintBytes(lane: Lane, top: number) {
    const share = this.app.device.streams[lane.group];
    if (!share || !share.peak) return;
    const { app, ratio } = this;
    const raster = this.pixels();
    const room = (lane.operations.length ? LANE - WORK - 8 : LANE - 12) * ratio;
    const bottom = (top + LANE - 3) * ratio;
    const strong = streamColor(app.palette, lane.group, lane.stream);
    const color = pixel(lane.operations.length ? mixed(strong, app.palette.background, 0.55) : strong);
    const columns = app.columnsOf(app.state.run, raster.width);
    for (let column = 0; column < columns.count; column++) {
      const height = (share.live[columns.most[column]] / share.peak) * room;
      raster.fill(column, bottom - height, column + 1, bottom, color);
    }
  }

  private operationColor(kind: number, group: number): string {
    const { palette } = this.app;
    if (kind === 4) return palette.waiting;
    if (kind === 0) return group < 0 ? palette.other : palette.series[group % palette.series.length];
    return [palette.live, palette.series[2], palette.series[4], palette.series[3], palette.waiting, palette.other][kind];
  }

  private eachOperation(lane: Lane, visit: (operation: number, left: number, right: number) => void) {
    const { x0, x1 } = this.app.state;
    const { begin, end, latest } = this.placesOf(lane);
    for (let i = lowerBound(latest, x0); i < begin.length && begin[i] <= x1; i++) {
      if (end[i] >= x0) visit(lane.operations[i], this.px(begin[i]), this.px(end[i]));
    }
  }

  private paintOperations(lane: Lane, top: number) {
    const { app, ratio } = this;
    const raster = this.pixels();
    const colors = OPERATION_KINDS.map((_, kind) => pixel(this.operationColor(kind, lane.group)));
    const { kind } = app.run.operations;
    const [y0, y1] = [(top + 4) * ratio, (top + WORK) * ratio];
    this.eachOperation(lane, (i, left, right) => {
      const x0 = (left - GUTTER) * ratio;
      const x1 = (right - GUTTER) * ratio;
      if (kind[i] === 4) raster.hatch(x0, y0, x1, y1, colors[4]);
      else raster.fill(x0, y0, x1 - x0 > 3 ? x1 - 1 : x1, y1, colors[kind[i]]);
    });
  }

  private paintNames(lane: Lane, top: number) {
    const { app, context } = this;
    const { operations, names } = app.run;
    let left = MOST_LABELS;
    context.font = '10.5px system-ui, sans-serif';
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    this.eachOperation(lane, (i, from, to) => {
      const x0 = Math.max(from, GUTTER);
      const x1 = Math.min(to, GUTTER + this.width);
      if (x1 - x0 < 34 || operations.name[i] === UNKNOWN || left-- <= 0) return;
      context.fillStyle = operations.kind[i] === 4 ? app.palette.text : '#ffffff';
      if (app.dark || operations.kind[i] === 4) {
        context.fillStyle = app.palette.background;
      }
      context.fillText(fitted(context, names[operations.name[i]], x1 - x0 - 8), x0 + 4, top + 14.5);
    });
  }

  private paintWaits() {
    const { app } = this;
    const { arrows, streams } = app.run;
    const { begin, end } = this.placesOfArrows();
    const within: number[] = [];
    for (let i = 0; i < arrows.count; i++) {
      const shown = end[i] >= app.state.x0 && begin[i] <= app.state.x1;
      const counts = !arrows.forReuse[i] && streams[arrows.toStream[i]].device === app.device.device;
      if (shown && counts) within.push(i);
    }
    const draw = (i: number, color: string) =>
      this.arrow(arrows.fromStream[i], begin[i], arrows.toStream[i], end[i], color, false);
    for (const i of thinned(within, MOST_WAITS)) draw(i, app.palette.faint);
    const wait = app.state.block < 0 ? UNKNOWN : app.run.blocks.wait[app.state.block];
    if (wait !== UNKNOWN) draw(wait, app.palette.accent);
    this.note(within.length, MOST_WAITS, 'wait', 'waits');
  }

  /** Notes the number of arrows if the picture does not draw all of them. */
  private note(count: number, most: number, one: string, many: string) {
    this.counts[many] = count;
    if (count > most) this.notes.push(`${countText(most)} of ${countText(count)} ${count === 1 ? one : many} drawn`);
  }

  private paintNotes() {
    const { context, app } = this;
    const counts = Object.entries(this.counts).map(([name, count]) => `${countText(count)} ${name}`);
    this.canvas.setAttribute('aria-label', `Streams: ${[...counts, ...this.notes].join(', ')}`);
    if (!this.notes.length) return;
    const text = `${this.notes.join(', ')}; zoom in for all`;
    context.font = '10.5px system-ui, sans-serif';
    const width = context.measureText(text).width + 12;
    context.fillStyle = app.palette.surface;
    context.fillRect(GUTTER + this.width - width, 1, width, 16);
    context.fillStyle = app.palette.text;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(text, GUTTER + this.width - width + 6, 9);
  }

  /** Draws where the memory of the selected block was before. If there is room, also for all other
   * blocks. */
  private paintReuse() {
    const { app } = this;
    const { device, run, axis, state } = app;
    const { stream } = run.blocks;
    const draw = (previous: number, block: number, strong: boolean) => {
      const [k, before] = [device.positionOf(block), device.positionOf(previous)];
      if (k < 0 || before < 0) return;
      const { begin, end } = device.placed(axis);
      const color = strong ? app.palette.selection : app.palette.stranded;
      this.arrow(stream[previous], end[before], stream[block], begin[k], color, !strong);
    };
    const within: number[] = [];
    const { begin } = device.placed(axis);
    for (const k of device.movedBetweenStreams) {
      if (begin[k] > state.x1) break;
      if (begin[k] >= state.x0) within.push(device.order[k]);
    }
    for (const block of thinned(within, MOST_REUSES)) draw(run.blocks.previous[block], block, false);
    this.note(within.length, MOST_REUSES, 'reuse by another stream', 'reuses by another stream');
    if (state.block < 0) return;
    const previous = previousOwner(device, state.block);
    if (previous >= 0) draw(previous, state.block, true);
  }

  private arrow(fromStream: number, from: number, toStream: number, to: number, color: string, dashed: boolean) {
    const { context } = this;
    const [a, b] = [this.laneOf(fromStream), this.laneOf(toStream)];
    if (a < 0 || b < 0) return;
    const down = b > a;
    const [x0, x1] = [this.px(from), this.px(to)];
    const y0 = a * LANE + (down ? WORK : a === b ? 4 : 6);
    const y1 = b * LANE + (down ? 5 : a === b ? 4 : WORK + 2);
    context.strokeStyle = context.fillStyle = color;
    context.lineWidth = 1.25;
    context.setLineDash(dashed ? [4, 3] : []);
    context.beginPath();
    context.moveTo(x0, y0);
    const bend = Math.max(12, Math.min(60, Math.abs(x1 - x0) / 2));
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 6, y1 - 3.5);
    context.lineTo(x1 - 6, y1 + 3.5);
    context.fill();
  }

  /** The operation at a point of the canvas; -1: none. */
  operationAt(px: number, py: number): number {
    const lane = this.all()[Math.floor(py / LANE)];
    if (!lane || px < GUTTER || py % LANE > WORK + 2) return -1;
    let best = -1;
    this.eachOperation(lane, (i, left, right) => {
      if (px >= left - 1 && px <= right + 1) best = i;
    });
    return best;
  }

  streamAt(py: number): string | null {
    return this.all()[Math.floor(py / LANE)]?.name ?? null;
  }
}

/** A subset of the items at even distances, if they are more than `most`. */
function thinned<Item>(items: Item[], most: number): Item[] {
  if (items.length <= most) return items;
  return Array.from({ length: most }, (_, i) => items[Math.floor((i * items.length) / most)]);
}
