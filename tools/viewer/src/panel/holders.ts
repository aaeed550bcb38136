// The holders of memory at a moment: live blocks by site, tag, stream or size class. With two runs,
// also the difference.

import { App } from '../app';
import { siteOf } from '../colors';
import { bytesElement, element } from '../dom';
import { countText, sizeText } from '../format';
import { UNKNOWN } from '../read';
import { Grouping } from '../state';

interface Holder {
  name: string;
  query: string;
  bytes: number;
  count: number;
}

const SHOWN = 14;
const NAMES: Record<Grouping, string> = { site: 'Site', tag: 'Tag', stream: 'Stream', size: 'Size' };

export function holders(app: App, run: number): Map<string, Holder> {
  const device = app.deviceOf(run);
  const event = app.moment(run);
  const { blocks, tags, streams } = device.run;
  const found = new Map<string, Holder>();
  for (let k = 0; k < device.order.length && device.begin[k] <= event; k++) {
    if (device.end[k] <= event) continue;
    const block = device.order[k];
    let name = 'not known';
    let query = '';
    switch (app.state.grouping) {
      case 'site':
        name = siteOf(device, block) || name;
        query = `site:"${name}"`;
        break;
      case 'tag':
        if (blocks.tag[block] !== UNKNOWN) name = tags[blocks.tag[block]] || name;
        query = `tag:"${name}"`;
        break;
      case 'stream':
        if (blocks.stream[block] !== UNKNOWN) name = streams[blocks.stream[block]].name;
        query = `stream:"${name}"`;
        break;
      case 'size': {
        const power = 2 ** Math.floor(Math.log2(Math.max(blocks.bytes[block], 1)));
        name = `${sizeText(power)} to ${sizeText(power * 2)}`;
        query = `>${power - 1}B <${power * 2}B`;
      }
    }
    const holder = found.get(name);
    const bytes = device.requested[k];
    if (!holder) found.set(name, { name, query: name === 'not known' ? '' : query, bytes, count: 1 });
    else {
      holder.bytes += bytes;
      holder.count++;
    }
  }
  return found;
}

export class HoldersPanel {
  readonly root = element('section', { class: 'card holders', 'aria-label': 'Who holds the memory' });

  constructor(private readonly app: App) {}

  private shown = '';

  draw() {
    const { app } = this;
    const { run, grouping } = app.state;
    const key = [run, app.state.device, grouping, app.state.at, app.state.axis, app.state.asker].join();
    if (this.shown === key) return;
    this.shown = key;
    const mine = holders(app, run);
    const other = app.runs.length > 1 ? holders(app, 1 - run) : null;
    const rows = [...mine.values()];
    if (other) {
      for (const holder of other.values()) if (!mine.has(holder.name)) rows.push({ ...holder, bytes: 0, count: 0 });
    }
    const difference = (holder: Holder) => holder.bytes - (other?.get(holder.name)?.bytes ?? 0);
    rows.sort((a, b) => (other ? Math.abs(difference(b)) - Math.abs(difference(a)) : 0) || b.bytes - a.bytes);
    const total = [...mine.values()].reduce((sum, holder) => sum + holder.bytes, 0);
    const event = app.moment();
    const when = Number.isNaN(app.state.at) ? 'at the peak' : `at ${app.label(app.state.at)}`;
    const most = Math.max(1, ...rows.map((holder) => holder.bytes));
    const choices = app.groupings.map((value) =>
      element('button', {
        'aria-pressed': String(grouping === value), click: () => app.update({ grouping: value }),
      }, NAMES[value]),
    );
    const body = rows.slice(0, SHOWN).map((holder) => this.row(holder, most, other ? difference(holder) : null));
    const rest = rows.slice(SHOWN);
    const restBytes = rest.reduce((sum, holder) => sum + holder.bytes, 0);
    this.root.replaceChildren(
      element('h2', {}, `Live ${when}`),
      element('p', { class: 'big', 'data-level': 'live' }, bytesElement(total, sizeText(total)),
        element('small', { 'data-fact': 'moment' }, ` ${app.eventName(event)}`)),
      element('dl', { class: 'levels' }, ...this.levels(event)),
      element('div', { class: 'choices', role: 'group', 'aria-label': 'Group by' }, ...choices),
      element('table', {},
        element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'Held by'),
          element('th', { scope: 'col', class: 'number' }, 'Blocks'), element('th', { scope: 'col', class: 'number' }, 'Bytes'),
          ...(other ? [element('th', { scope: 'col', class: 'number' }, 'Change')] : []))),
        element('tbody', {}, ...body)),
      ...(rest.length
        ? [element('p', { class: 'faint' }, `and ${countText(rest.length)} more with ${sizeText(restBytes)}`)]
        : []),
    );
  }

  /** The other levels at the event. Unknown values are named as such. */
  private levels(event: number): HTMLElement[] {
    const { device, state, run } = this.app;
    const { live, held, active, reserved } = device.levels;
    const asker = run.streams[state.asker];
    const known: [string, string, number | null][] = [
      ['reserved', 'Reserved', reserved && !Number.isNaN(reserved[event]) ? reserved[event] : null],
      ['rounding', 'Rounding and rest', device.rounds ? held[event] - live[event] : null],
      ['waiting', 'Waiting', device.waits ? active[event] - held[event] : null],
      ['stranded', asker ? `Stranded for ${asker.name}` : 'Stranded', device.stranded(event, state.asker)],
    ];
    if (run.pools.length) known.push(['pool', 'In other pools', device.inOtherPools(event, state.asker)]);
    return known.flatMap(([level, name, bytes]) => [
      element('dt', {}, name), element('dd', { 'data-level': level }, bytesElement(bytes, sizeText(bytes))),
    ]);
  }

  private row(holder: Holder, most: number, difference: number | null): HTMLElement {
    const { app } = this;
    const find = element('button', {
      class: 'link', title: holder.name, click: () => holder.query && app.update({ query: holder.query }),
    }, holder.name);
    const bar = `--part:${((holder.bytes / most) * 100).toFixed(2)}%`;
    return element('tr', {},
      element('td', { class: 'name', style: bar }, find),
      element('td', { class: 'number' }, countText(holder.count)),
      element('td', { class: 'number' }, bytesElement(holder.bytes, sizeText(holder.bytes))),
      ...(difference === null ? [] : [element('td', { class: `number ${difference > 0 ? 'more' : ''}` },
        bytesElement(difference, `${difference > 0 ? '+' : ''}${sizeText(difference)}`))]),
    );
  }
}
