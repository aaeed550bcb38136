// Wheel and pointer: zoom, pan, select a range or a block, and show details under the pointer.

import { App } from './app';
import { element } from './dom';
import { addressText, sizeText } from './format';
import { siteOf } from './colors';
import { UNKNOWN } from './read';
import { Lanes, OPERATION_KINDS } from './tracks/lanes';
import { MapTrack } from './tracks/map';
import { MemoryTrack } from './tracks/memory';
import { GUTTER, Track } from './tracks/track';

interface Tracks {
  memory: MemoryTrack;
  map: MapTrack;
  lanes: Lanes;
}

export class Pointer {
  private readonly line = element('div', { class: 'cursor', hidden: true });
  private readonly range = element('div', { class: 'range', hidden: true });
  private readonly tip = element('div', { class: 'tip', hidden: true });
  private drag: { x: number; y: number; moved: boolean; range: boolean; y0: number; y1: number } | null = null;

  constructor(private readonly app: App, area: HTMLElement, all: Track[], private readonly tracks: Tracks) {
    area.append(this.line, this.range);
    document.body.append(this.tip);
    area.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    area.addEventListener('pointerleave', () => this.leave());
    for (const track of all) {
      const { canvas } = track;
      canvas.addEventListener('pointerdown', (event) => this.down(event, track));
      canvas.addEventListener('pointermove', (event) => this.move(event, track));
      canvas.addEventListener('pointerup', (event) => this.up(event, track));
      canvas.addEventListener('dblclick', (event) => this.double(event, track));
    }
  }

  private place(event: MouseEvent, track: Track) {
    const box = track.canvas.getBoundingClientRect();
    return { px: event.clientX - box.left, py: event.clientY - box.top };
  }

  private wheel(event: WheelEvent) {
    const { app, tracks } = this;
    const box = tracks.map.canvas.getBoundingClientRect();
    const overMap = event.clientY >= box.top && event.clientY <= box.bottom;
    event.preventDefault();
    const scale = event.deltaMode === 1 ? 16 : 1;
    const [dx, dy] = [event.deltaX * scale, event.deltaY * scale];
    const span = app.state.x1 - app.state.x0;
    if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
      app.pan((((dx || dy) * span) / tracks.map.canvas.clientWidth) * 1.2);
    } else if ((event.altKey || event.ctrlKey) && overMap) {
      this.zoomAddresses(Math.exp(dy * 0.002), 1 - (event.clientY - box.top) / box.height);
    } else {
      app.zoom(Math.exp(Math.max(-250, Math.min(250, dy)) * 0.0022), tracks.map.xAt(event.clientX - box.left));
    }
  }

  private zoomAddresses(factor: number, part: number) {
    const { y0, y1 } = this.app.state;
    const span = Math.min(1, Math.max((y1 - y0) * factor, 1e-6));
    const low = Math.min(Math.max(y0 + part * (y1 - y0 - span), 0), 1 - span);
    this.app.update({ y0: low, y1: low + span });
  }

  private down(event: PointerEvent, track: Track) {
    if (event.button !== 0) return;
    const { px, py } = this.place(event, track);
    const { y0, y1 } = this.app.state;
    this.drag = { x: px, y: py, moved: false, range: event.shiftKey, y0, y1 };
    track.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent, track: Track) {
    const { px, py } = this.place(event, track);
    const { drag, app } = this;
    if (!drag) return this.hover(event, track, px, py);
    if (!drag.moved && Math.hypot(px - drag.x, py - drag.y) < 4) return;
    drag.moved = true;
    this.tip.hidden = true;
    if (drag.range) {
      const [left, right] = [Math.min(px, drag.x), Math.max(px, drag.x)];
      this.range.hidden = false;
      Object.assign(this.range.style, { left: `${Math.max(left, GUTTER)}px`, width: `${right - Math.max(left, GUTTER)}px` });
      return;
    }
    app.pan(track.xAt(drag.x) - track.xAt(px));
    drag.x = px;
    if (track === this.tracks.map && app.state.y1 - app.state.y0 < 1) {
      const by = ((py - drag.y) / track.canvas.clientHeight) * (app.state.y1 - app.state.y0);
      const moved = Math.min(Math.max(by, -app.state.y0), 1 - app.state.y1);
      app.update({ y0: app.state.y0 + moved, y1: app.state.y1 + moved });
      drag.y = py;
    }
  }

  private up(event: PointerEvent, track: Track) {
    const { drag, app } = this;
    this.drag = null;
    this.range.hidden = true;
    if (!drag) return;
    const { px, py } = this.place(event, track);
    if (drag.moved && drag.range) {
      const [left, right] = [Math.min(px, drag.x), Math.max(px, drag.x)].map((at) => track.xAt(at));
      app.update({ x0: Math.max(0, left), x1: Math.min(app.axis.end, right) });
    } else if (!drag.moved && px >= GUTTER) {
      if (track === this.tracks.map) this.select(px, py);
      else if (track === this.tracks.memory) app.update({ at: Math.max(0, track.xAt(px)) });
    }
  }

  /** Selects the block at a point of the map. If there is none, selects the reserved memory. */
  private select(px: number, py: number) {
    const { app } = this;
    const { map } = this.tracks;
    const block = map.blockAt(px, py);
    const address = block < 0 ? map.addressAt(py) : -1;
    const moment = Math.max(0, app.axis.eventAt(app.run, map.xAt(px)));
    if (block >= 0) app.update({ block });
    else if (address >= 0 && app.device.segmentAt(address, moment) >= 0) app.update({ place: Math.floor(address), moment });
    else app.update({ block: -1, place: -1 });
  }

  private double(event: MouseEvent, track: Track) {
    const { px, py } = this.place(event, track);
    const block = track === this.tracks.map ? this.tracks.map.blockAt(px, py) : -1;
    if (block >= 0) this.app.zoomTo(block);
    else if (track === this.tracks.memory) this.app.update({ at: NaN });
  }

  private leave() {
    this.line.hidden = true;
    this.tip.hidden = true;
  }

  private hover(event: PointerEvent, track: Track, px: number, py: number) {
    const inside = px >= GUTTER;
    this.line.hidden = !inside;
    this.line.style.left = `${px}px`;
    const lines = inside ? this.linesAt(track, px, py) : [];
    this.tip.hidden = lines.length === 0;
    if (!lines.length) return;
    this.tip.replaceChildren(...lines.map((line, i) => element(i ? 'div' : 'strong', {}, line)));
    const { offsetWidth, offsetHeight } = this.tip;
    const left = event.clientX + 16 + offsetWidth > innerWidth ? event.clientX - offsetWidth - 12 : event.clientX + 16;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.min(event.clientY + 14, innerHeight - offsetHeight - 4)}px`;
  }

  private linesAt(track: Track, px: number, py: number): string[] {
    const { app, tracks } = this;
    const x = track.xAt(px);
    if (track === tracks.map) return this.blockLines(tracks.map.blockAt(px, py), tracks.map.addressAt(py), app.axis.eventAt(app.run, x));
    if (track === tracks.lanes) {
      const operation = tracks.lanes.operationAt(px, py);
      if (operation >= 0) return this.operationLines(operation);
      const stream = tracks.lanes.streamAt(py);
      return stream ? [stream, app.label(x)] : [];
    }
    return this.levelLines(x);
  }

  private levelLines(x: number): string[] {
    const { app } = this;
    const lines = [app.label(x)];
    app.runs.forEach((run, i) => {
      const event = app.axis.eventAt(run, x);
      if (event < 0 || x > app.axis.ofEvent(run, run.events)) return;
      const device = app.deviceOf(i);
      const { live, held, active, reserved } = device.levels;
      const stranded = device.stranded(event, app.state.asker);
      if (app.runs.length > 1) lines.push(`${'AB'[i]}: ${run.name}`);
      lines.push(`reserved ${sizeText(reserved ? reserved[event] : null)}`, `live ${sizeText(live[event])}`);
      lines.push(`waiting ${device.waits ? sizeText(active[event] - held[event]) : 'not known'}`);
      lines.push(`stranded ${sizeText(stranded)}`);
      if (run.pools.length) lines.push(`in other pools ${sizeText(device.inOtherPools(event, app.state.asker))}`);
    });
    return lines;
  }

  private blockLines(block: number, address: number, event: number): string[] {
    const { app } = this;
    if (block < 0) return address >= 0 ? this.freeLines(address, event) : [];
    const { blocks, streams, tags } = app.run;
    const lines = [`${sizeText(blocks.bytes[block])}`];
    if (blocks.stream[block] !== UNKNOWN) lines.push(`stream ${streams[blocks.stream[block]].name}`);
    if (blocks.tag[block] !== UNKNOWN) lines.push(tags[blocks.tag[block]]);
    const site = siteOf(app.device, block);
    if (site) lines.push(site);
    const { allocated, freed } = blocks;
    const from = allocated[block] === UNKNOWN ? 'the beginning' : app.eventName(allocated[block]);
    const to = freed[block] === UNKNOWN ? 'the end' : app.eventName(freed[block]);
    lines.push(`${from} to ${to}`);
    return lines;
  }

  /** Describes the stream that can use the free memory, and since when it is free. */
  private freeLines(address: number, event: number): string[] {
    const { app } = this;
    const { device, run } = app;
    const segment = device.segmentAt(address, event);
    if (segment < 0) return [addressText(address), 'not reserved'];
    const { stream, pool, bytes, expandable } = run.segments;
    const user = device.lastUser(address, event);
    const of = user >= 0 ? run.blocks.stream[user] : stream[segment];
    const lines = [`free, in a segment of ${sizeText(bytes[segment])}`, addressText(address)];
    if (expandable[segment]) lines.push('of an expandable segment');
    if (of !== UNKNOWN) lines.push(`stream ${run.streams[of].name}`);
    if (run.pools.length) lines.push(pool[segment] === UNKNOWN ? 'the default pool' : run.pools[pool[segment]]);
    if (user >= 0) {
      lines.push(`last used by ${siteOf(device, user) || `block ${user.toLocaleString('en-US')}`}`);
      if (run.blocks.freed[user] !== UNKNOWN) lines.push(`freed at ${app.eventName(run.blocks.freed[user])}`);
    } else {
      lines.push('not used since it was reserved, as far as the trace shows');
    }
    return lines;
  }

  private operationLines(operation: number): string[] {
    const { app } = this;
    const { operations, names, streams } = app.run;
    const name = operations.name[operation] === UNKNOWN ? '' : names[operations.name[operation]];
    const kind = OPERATION_KINDS[operations.kind[operation]];
    const length = app.axis.mode === 'time' ? app.axis.label(operations.end[operation] - operations.begin[operation]) : '';
    return [name || kind, `${kind} on ${streams[operations.stream[operation]].name}`, length].filter(Boolean);
  }
}
