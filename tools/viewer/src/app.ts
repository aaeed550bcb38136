// Shared by all parts of the page: the runs, the state, and redrawing after a change.

import { Axis } from './axis';
import { Coloring as ColoringOf, colorsOf, Colors } from './colors';
import { read } from './columns';
import { Device } from './device';
import { Palette, palette } from './palette';
import { PixelColumns, pixelColumns } from './pixelcolumns';
import { Place, placeAt } from './place';
import { eventName, Run, Stacks, UNKNOWN } from './read';
import { Matches, search } from './search';
import { COLORINGS, fromFragment, GROUPINGS, toFragment, ViewState } from './state';

export class App {
  readonly state: ViewState;
  readonly stacks: Stacks[];
  matches: Matches | null = null;
  axis: Axis;
  private usual: ViewState;
  private readonly axes = new Map<string, Axis>();
  private readonly devices = new Map<string, Device>();
  private readonly listeners: (() => void)[] = [];
  private colors: { key: string; colors: Colors } | null = null;
  private pending = false;
  private linkTimer = 0;
  private searchedFor = '';
  private readonly darkQuery = matchMedia('(prefers-color-scheme: dark)');
  private found: { key: string; place: Place | null } = { key: '', place: null };
  private columns = new Map<string, PixelColumns>();

  constructor(readonly title: string, readonly runs: Run[]) {
    this.stacks = runs.map((run) => new Stacks(run.stackRefs));
    const timed = runs.every((run) => run.times);
    this.usual = {
      axis: timed && runs.every(isSpread) ? 'time' : 'events', x0: 0, x1: NaN, y0: 0, y1: 1, run: 0, device: this.fullestDevice(0), asker: NaN,
      coloring: 'stream', grouping: this.firstGrouping(), query: '', block: -1, place: -1, moment: 0, at: NaN, theme: 'system',
    };
    this.state = fromFragment(location.hash, this.usual);
    this.axis = this.axisOf(this.state.axis);
    this.correct();
    addEventListener('hashchange', () => {
      if (location.hash.replace(/^#/, '') === this.link()) return;
      this.update(fromFragment(location.hash, this.usual));
    });
    this.darkQuery.addEventListener('change', () => this.changed());
  }

  get run(): Run {
    return this.runs[this.state.run];
  }

  get device(): Device {
    return this.deviceOf(this.state.run);
  }

  deviceOf(run: number): Device {
    const device = Math.min(this.state.device, this.runs[run].devices - 1);
    const key = `${run}/${device}`;
    let found = this.devices.get(key);
    if (!found) this.devices.set(key, (found = new Device(this.runs[run], device)));
    return found;
  }

  get dark(): boolean {
    const { theme } = this.state;
    return theme === 'dark' || (theme === 'system' && this.darkQuery.matches);
  }

  /** The events of each column of pixels in this picture. */
  columnsOf(run: number, width: number): PixelColumns {
    const key = `${run}/${width}`;
    let columns = this.columns.get(key);
    if (!columns) this.columns.set(key, (columns = pixelColumns(this, run, width)));
    return columns;
  }

  get palette(): Palette {
    return palette(this.dark);
  }

  /** Colors of the blocks of a run. */
  colorsOf(run: number): Colors {
    return colorsOf(this.deviceOf(run), this.state.coloring as ColoringOf, this.palette);
  }

  /** Colors of the shown blocks. Blocks that a search did not find are dimmed. */
  blockColors(): Colors {
    const { state } = this;
    const key = [state.run, state.device, state.coloring, this.dark].join();
    if (this.colors?.key !== key) this.colors = { key, colors: this.colorsOf(state.run) };
    return this.colors.colors;
  }

  /** For checks of large pages: the columns and bytes that were read, and the blocks that the last
   * picture visited. */
  get counts(): { columns: number; bytes: number; visited: number } {
    return { ...read, visited: this.device.visited };
  }

  /** The selected memory; null: no selection, or the memory is not reserved at that moment. */
  get selectedPlace(): Place | null {
    const { run, device, place, moment } = this.state;
    if (place < 0) return null;
    const key = [run, device, place, moment].join();
    if (this.found.key !== key) this.found = { key, place: placeAt(this.device, place, moment) };
    return this.found.place;
  }

  /** The sentences about the shown device. */
  get summary(): string[] {
    const { device } = this.state;
    return this.run.summary.filter((line) => line.device === null || line.device === device).map((line) => line.text);
  }

  /** The event for which the holders are shown. */
  moment(run = this.state.run): number {
    const device = this.deviceOf(run);
    if (Number.isNaN(this.state.at)) return device.peak;
    return Math.max(0, this.axis.eventAt(this.runs[run], this.state.at));
  }

  update(change: Partial<ViewState>) {
    const before = { ...this.state };
    Object.assign(this.state, change);
    if (this.state.axis !== before.axis) this.changeAxis(before);
    if (this.state.run !== before.run || this.state.device !== before.device) {
      if (change.block === undefined) this.state.block = -1;
      if (change.place === undefined) this.state.place = -1;
      if (change.asker === undefined) this.state.asker = NaN;
    }
    if ((change.block ?? -1) >= 0) this.state.place = -1;
    else if ((change.place ?? -1) >= 0) this.state.block = -1;
    this.correct();
    this.changed();
  }

  /** An event in words with its time; `unknown` without an event. */
  momentText(event: number, unknown: string): string {
    if (event === UNKNOWN) return unknown;
    const count = this.eventName(event);
    return this.axis.mode === 'events' ? count : `${this.axis.label(this.axis.ofEvent(this.run, event))} (${count})`;
  }

  /** Zooms by `factor` around x. */
  zoom(factor: number, around: number) {
    const { x0, x1 } = this.state;
    const span = Math.min(Math.max((x1 - x0) * factor, this.leastSpan()), this.axis.end);
    const part = (around - x0) / (x1 - x0);
    const left = Math.min(Math.max(around - part * span, 0), this.axis.end - span);
    this.update({ x0: left, x1: left + span });
  }

  pan(by: number) {
    const { x0, x1 } = this.state;
    const moved = Math.min(Math.max(by, -x0), this.axis.end - x1);
    this.update({ x0: x0 + moved, x1: x1 + moved });
  }

  fit() {
    this.update({ x0: 0, x1: this.axis.end, y0: 0, y1: 1 });
  }

  /** Shows the whole lifetime of a block with some context. */
  zoomTo(block: number) {
    const { device, axis } = this;
    const k = device.positionOf(block);
    if (k < 0) return;
    const { begin, ready } = device.placed(axis);
    const room = Math.max((ready[k] - begin[k]) * 0.3, this.leastSpan());
    this.update({ block, x0: Math.max(0, begin[k] - room), x1: Math.min(axis.end, ready[k] + room) });
  }

  onChange(listener: () => void) {
    this.listeners.push(listener);
  }

  changed() {
    this.startSearch();
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      performance.clearMeasures('millrace:draw');
      const start = performance.now();
      this.columns.clear();
      this.device.visited = 0;
      for (const listener of this.listeners) listener();
      performance.measure('millrace:draw', { start, end: performance.now() });
      clearTimeout(this.linkTimer);
      this.linkTimer = window.setTimeout(() => this.keepLink(), 150);
    });
  }

  link(): string {
    return toFragment(this.state, { ...this.usual, x1: this.axis.end, asker: this.usualAsker() });
  }

  private keepLink() {
    const link = this.link();
    if (link !== location.hash.replace(/^#/, '')) history.replaceState(null, '', link ? `#${link}` : location.pathname);
  }

  private axisOf(mode: ViewState['axis']): Axis {
    let axis = this.axes.get(mode);
    if (!axis) this.axes.set(mode, (axis = new Axis(mode, this.runs)));
    return axis;
  }

  private changeAxis(before: ViewState) {
    const old = this.axis;
    this.axis = this.axisOf(this.state.axis);
    const converted = (x: number) => this.axis.ofEvent(this.run, Math.max(0, old.eventAt(this.run, x)));
    this.state.x0 = before.x0 <= 0 ? 0 : converted(before.x0);
    this.state.x1 = before.x1 >= old.end ? this.axis.end : converted(before.x1);
    if (!Number.isNaN(before.at)) this.state.at = converted(before.at);
  }

  /** Keeps the state within valid values. */
  private correct() {
    const { state, runs } = this;
    if (!runs.every((run) => run.times)) state.axis = 'events';
    this.axis = this.axisOf(state.axis);
    const { end } = this.axis;
    state.run = Math.min(Math.max(0, Math.floor(state.run)), runs.length - 1);
    state.device = Math.min(Math.max(0, Math.floor(state.device)), runs[state.run].devices - 1);
    if (!(state.x1 <= end)) state.x1 = end;
    if (!(state.x0 >= 0 && state.x0 < state.x1)) state.x0 = 0;
    if (!(state.y0 >= 0 && state.y0 < state.y1 && state.y1 <= 1)) [state.y0, state.y1] = [0, 1];
    if (state.block >= this.run.blocks.count || state.block < 0) state.block = -1;
    if (state.block >= 0 && this.run.blocks.device[state.block] !== state.device) state.block = -1;
    state.moment = Math.min(Math.max(0, Math.floor(state.moment)), Math.max(0, this.run.events - 1));
    if (!(state.place >= 0)) [state.place, state.moment] = [-1, 0];
    if (!this.askers.includes(state.asker)) state.asker = this.usualAsker();
    if (!this.groupings.includes(state.grouping)) state.grouping = this.groupings[0];
    if (!this.colorings.includes(state.coloring)) state.coloring = 'stream';
  }

  private leastSpan(): number {
    return this.state.axis === 'events' ? 4 : 100;
  }

  /** Streams for which stranded memory can be shown. */
  get askers(): number[] {
    const { asker, holding, streams } = this.device;
    return asker?.fixed ? [asker.stream] : holding.length ? holding : streams.map((share) => share.stream);
  }

  /** The properties by which blocks can be colored. */
  get colorings(): ViewState['coloring'][] {
    const { tags, sites } = this.run;
    return COLORINGS.filter((coloring) => (coloring !== 'tag' || tags.length) && (coloring !== 'site' || sites.length));
  }

  /** The properties by which holders can be grouped. */
  get groupings(): ViewState['grouping'][] {
    const { tags, sites } = this.run;
    return GROUPINGS.filter((grouping) => (grouping !== 'tag' || tags.length) && (grouping !== 'site' || sites.length));
  }

  /** A place on the axis, in words. */
  label(x: number, run = this.state.run): string {
    return this.axis.mode === 'events' ? this.eventName(Math.floor(x), run) : this.axis.label(x);
  }

  /** The user's name of the shown device's last event at or before an event. */
  eventName(event: number, run = this.state.run): string {
    return eventName(this.runs[run], this.deviceOf(run).device, event);
  }

  /** The stream of the request that made the memory grow to its peak. If it is unknown, the stream
   * with the most live memory. */
  private usualAsker(): number {
    if (this.device.asker) return this.device.asker.stream;
    let best = this.device.streams[0];
    for (const share of this.device.streams) if (share.stream >= 0 && share.peak > best.peak) best = share;
    return best ? best.stream : -1;
  }

  private fullestDevice(run: number): number {
    const { blocks, devices } = this.runs[run];
    const sums = new Float64Array(devices);
    for (let i = 0; i < blocks.count; i++) sums[blocks.device[i]] += blocks.bytes[i];
    return sums.indexOf(Math.max(...sums));
  }

  private firstGrouping(): ViewState['grouping'] {
    const { sites, tags } = this.runs[0];
    return sites.length ? 'site' : tags.length ? 'tag' : 'stream';
  }

  private startSearch() {
    const key = [this.state.query, this.state.run, this.state.device].join('\n');
    if (key === this.searchedFor) return;
    this.searchedFor = key;
    search(this.state.query, this.device, this.stacks[this.state.run]).then((found) => {
      if (key !== this.searchedFor) return;
      this.matches = found;
      this.changed();
    });
  }
}

/** Whether most events take a fair part of the time. If a long beginning or end has few events, the
 * axis counts events. */
function isSpread(run: Run): boolean {
  const times = run.times!;
  if (times.length < 10) return true;
  const at = (part: number) => times[Math.floor((times.length - 1) * part)];
  return at(0.9) - at(0.1) >= 0.25 * (times[times.length - 1] - times[0]);
}
