// The selected place: free memory with its last user, its stream and when it is usable, and its
// segment.

import { App } from '../app';
import { siteOf } from '../colors';
import { bytesElement, element } from '../dom';
import { addressText, countText, sizeText } from '../format';
import { liveIn, Place } from '../place';
import { UNKNOWN } from '../read';

export class PlacePanel {
  readonly root = element('section', { class: 'card selection', id: 'place', 'aria-live': 'polite', 'aria-label': 'Selected memory' });
  private shown = '';

  constructor(private readonly app: App) {}

  draw() {
    const { app } = this;
    const { run, device, place, moment, asker, axis } = app.state;
    const key = [run, device, place, moment, asker, axis].join();
    if (this.shown === key) return;
    this.shown = key;
    const found = app.selectedPlace;
    this.root.hidden = place < 0;
    this.root.replaceChildren();
    if (place < 0) return;
    this.root.append(
      element('h2', {}, !found ? 'Not reserved' : found.free ? 'Free memory' : 'Segment',
        element('button', { class: 'plain', title: 'Close (Esc)', click: () => app.update({ place: -1 }) }, 'Close')),
      element('p', { class: 'faint' }, `${addressText(place)}, after ${app.eventName(moment)}`));
    if (!found) return;
    if (found.free) this.root.append(this.free(found));
    if (found.free) this.root.append(element('h3', {}, 'Its segment'));
    this.root.append(this.segment(found));
  }

  private list() {
    const list = element('dl', {});
    const add = (name: string, ...value: (Node | string)[]) =>
      list.append(element('dt', {}, name), element('dd', { 'data-fact': name.toLowerCase() }, ...value));
    return { list, add };
  }

  private free(place: Place): HTMLElement {
    const { app } = this;
    const { run } = app;
    const { list, add } = this.list();
    add('Free', bytesElement(place.high - place.low, sizeText(place.high - place.low)));
    add('From', addressText(place.low));
    add('Last user', ...this.user(place));
    add('Free since', app.momentText(place.since, 'before the first event'));
    add('Taken again', app.momentText(place.until, 'not within the run'));
    const asker = run.streams[app.state.asker];
    add(asker ? `Usable by ${asker.name}` : 'Usable', this.usable(place));
    return list;
  }

  private user(place: Place): (Node | string)[] {
    const { app } = this;
    if (place.user < 0) return ['none since it was reserved, as far as the trace shows'];
    const { blocks, streams } = app.run;
    const of = blocks.stream[place.user] === UNKNOWN ? '' : ` on ${streams[blocks.stream[place.user]].name}`;
    const name = siteOf(app.device, place.user);
    return [element('button', { class: 'link', 'data-block': place.user, click: () => app.update({ block: place.user }) },
      `Block ${countText(place.user)}${of}`), name ? element('span', { class: 'faint' }, ` ${name}`) : ''];
  }

  /** Whether the asker can use it, and from when on. */
  private usable(place: Place): string {
    const { app } = this;
    const { device, run, state } = app;
    if (!device.knowsStranded || state.asker < 0) return 'not known';
    if (run.segments.pool[place.segment] !== device.poolOf(state.asker)) return 'no: it asks from another pool';
    if (place.stream === UNKNOWN) return place.open ? 'now' : 'not known';
    if (place.stream === state.asker) return 'now';
    const stream = run.streams[place.stream].name;
    if (device.shared) {
      if (place.passes >= run.events) return `not within the run: it is free for ${stream} only`;
      const at = app.momentText(place.passes, '');
      return `${place.passing === 'usable' ? `from ${at} on` : `not before it is ${place.passing} at ${at}`}; until then ${stream} only`;
    }
    const last = place.user < 0 ? '' : ` If the allocator passed memory on: after the work of ${stream} up to ${app.eventName(run.blocks.freed[place.user])}.`;
    return `no: its segment serves ${stream} only.${last}`;
  }

  private segment(place: Place): HTMLElement {
    const { app } = this;
    const { segments, streams, pools } = app.run;
    const i = place.segment;
    const { list, add } = this.list();
    add('Segment', bytesElement(segments.bytes[i], sizeText(segments.bytes[i])), segments.expandable[i] ? ' of an expandable segment' : '');
    add('At', addressText(segments.address[i]));
    add('Stream', segments.stream[i] !== UNKNOWN ? streams[segments.stream[i]].name : app.device.shared ? 'any: streams share it' : 'not known');
    if (pools.length) add('Pool', segments.pool[i] === UNKNOWN ? 'the default pool' : pools[segments.pool[i]]);
    add('Reserved since', app.momentText(segments.mapped[i], 'before the first event'));
    add('Given back', app.momentText(segments.unmapped[i], 'not within the run'));
    const live = liveIn(app.device, i, app.state.moment);
    add('Live in it', bytesElement(live.bytes, sizeText(live.bytes)), ` in ${countText(live.count)} block${live.count === 1 ? '' : 's'}`);
    return list;
  }
}
