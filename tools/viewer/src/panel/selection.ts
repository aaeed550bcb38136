// The selected block: its size, lifetime, stream and stack, and the blocks that had its memory
// before and after.

import { App } from '../app';
import { bytesElement, element } from '../dom';
import { addressText, countText, sizeText } from '../format';
import { Frame, UNKNOWN } from '../read';
import { nextOwner, previousOwner, REUSE_TEXT } from '../reuse';

export class SelectionPanel {
  readonly root = element('section', { class: 'card selection', id: 'selection', 'aria-live': 'polite', 'aria-label': 'Selected block' });
  private shown = '';

  constructor(private readonly app: App) {}

  draw() {
    const { app } = this;
    const { block, run, axis } = app.state;
    const key = `${run}/${block}/${axis}`;
    if (this.shown === key) return;
    this.shown = key;
    this.root.hidden = block < 0;
    if (block < 0) {
      this.root.replaceChildren();
      return;
    }
    this.root.replaceChildren(
      element('h2', {}, `Block ${countText(block)}`,
        element('button', { class: 'plain', title: 'Zoom to its life (F)', click: () => app.zoomTo(block) }, 'Zoom to it'),
        element('button', { class: 'plain', title: 'Close (Esc)', click: () => app.update({ block: -1 }) }, 'Close')),
      this.facts(block), this.owners(block), this.stack(block),
    );
  }

  private facts(block: number): HTMLElement {
    const { app } = this;
    const { blocks, streams, tags, events } = app.run;
    const list = element('dl', {});
    const add = (name: string, ...value: (Node | string)[]) =>
      list.append(element('dt', {}, name), element('dd', { 'data-fact': name.toLowerCase() }, ...value));
    const bytes = blocks.bytes[block];
    const requested = blocks.requested[block];
    const asked = requested < 0 ? '' : requested === bytes ? '' : ` (${sizeText(requested)} requested)`;
    add('Size', bytesElement(bytes, sizeText(bytes)), asked);
    const stream = blocks.stream[block];
    add('Stream', stream === UNKNOWN ? 'not known' : streams[stream].name);
    if (blocks.tag[block] !== UNKNOWN) add('Tag', tags[blocks.tag[block]]);
    add('Address', addressText(blocks.address[block]));
    add('Segment', this.segment(block));
    add('Allocated', this.moment(blocks.allocated[block], 'before the first event'));
    add('Freed', this.moment(blocks.freed[block], 'not within the run'));
    const ready = blocks.ready[block];
    if (blocks.freed[block] !== UNKNOWN) {
      const of = blocks.stream[block] === UNKNOWN ? 'its stream' : streams[blocks.stream[block]].name;
      add(`Usable by ${of}`, ready >= events && ready !== UNKNOWN ? 'not within the run' : this.moment(ready, 'not known'));
    }
    add('Life', this.life(block));
    return list;
  }

  private moment(event: number, unknown: string): string {
    return this.app.momentText(event, unknown);
  }

  /** The segment of a block. A click selects it. */
  private segment(block: number): Node | string {
    const { app } = this;
    const { blocks, segments } = app.run;
    const moment = blocks.allocated[block] === UNKNOWN ? 0 : blocks.allocated[block];
    const found = blocks.address[block] < 0 ? -1 : app.device.segmentAt(blocks.address[block], moment);
    if (found < 0) return 'not known';
    return element('button', {
      class: 'link', title: 'Show it (G)', click: () => app.update({ place: blocks.address[block], moment }),
    }, `${sizeText(segments.bytes[found])} at ${addressText(segments.address[found])}`);
  }

  private life(block: number): string {
    const { run, axis } = this.app;
    const { allocated, freed } = run.blocks;
    if (allocated[block] === UNKNOWN || freed[block] === UNKNOWN) return 'longer than the run shows';
    const number = (event: number) => run.positions?.[event] ?? event;
    const events = `${countText(number(freed[block]) - number(allocated[block]))} ${run.eventWord}s`;
    if (axis.mode === 'events') return events;
    return `${axis.label(axis.ofEvent(run, freed[block]) - axis.ofEvent(run, allocated[block]))} (${events})`;
  }

  private owners(block: number): HTMLElement {
    const { app } = this;
    const [previous, next] = [previousOwner(app.device, block), nextOwner(app.device, block)];
    const reuse = app.run.blocks.reuse[block];
    const part = element('div', { class: 'owners' });
    part.append(element('h3', {}, 'Who had this memory before'));
    if (previous < 0) {
      const why = app.run.blocks.address[block] < 0 ? 'Not known: the trace has no addresses.' : 'No block within the run.';
      part.append(element('p', { class: 'faint', 'data-fact': 'before' }, why));
    } else {
      part.append(element('p', { 'data-fact': 'before' }, this.link(previous), element('span', { class: 'faint' }, ` ${REUSE_TEXT[reuse]}`)));
    }
    const wait = app.run.blocks.wait[block];
    if (wait !== UNKNOWN) part.append(element('p', { class: 'faint', 'data-fact': 'wait' }, this.wait(wait)));
    if (next >= 0) part.append(element('h3', {}, 'And after'), element('p', { 'data-fact': 'after' }, this.link(next)));
    return part;
  }

  /** The wait that ordered the streams, in words. */
  private wait(arrow: number): string {
    const { app } = this;
    const { arrows, streams } = app.run;
    const [from, to] = [arrows.fromStream[arrow], arrows.toStream[arrow]].map((stream) => streams[stream].name);
    const place = (clock: number) => app.label(app.axis.ofClock(app.run, clock));
    return `The wait of ${to} at ${place(arrows.to[arrow])} for what ${from} had done at ${place(arrows.from[arrow])}, drawn in blue.`;
  }

  private link(block: number): HTMLElement {
    const { app } = this;
    const { bytes, stream } = app.run.blocks;
    const of = stream[block] === UNKNOWN ? '' : ` on ${app.run.streams[stream[block]].name}`;
    const text = `Block ${countText(block)}, ${sizeText(bytes[block])}${of}`;
    return element('button', { class: 'link', 'data-block': block, click: () => app.update({ block }) }, text);
  }

  private stack(block: number): HTMLElement {
    const { app } = this;
    const part = element('div', { class: 'stack' }, element('h3', {}, 'Stack'));
    const stack = app.run.blocks.stack[block];
    if (stack === UNKNOWN) {
      part.append(element('p', { class: 'faint' }, 'Not recorded.'));
      return part;
    }
    const list = element('ol', {});
    part.append(list);
    app.stacks[app.state.run].frames(stack).then((frames) => {
      list.replaceChildren(...frames.map((frame) => this.frame(frame)));
      if (!frames.length) list.replaceWith(element('p', { class: 'faint' }, 'Empty.'));
    });
    return part;
  }

  private frame([name, file, line]: Frame): HTMLElement {
    const own = file.endsWith('.py') && !/\/(torch|site-packages|dist-packages)\//.test(file);
    return element('li', { class: own ? 'own' : '' }, element('code', {}, name || '?'),
      element('span', { class: 'faint', title: `${file}:${line}` }, file ? ` ${file}${line ? `:${line}` : ''}` : ''));
  }
}
