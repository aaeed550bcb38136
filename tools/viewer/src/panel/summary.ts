// The sentences of the summary, the facts of the run, and its tables of bars: the ladder, what-if,
// the parts of the peak.

import { App } from '../app';
import { bytesElement, element } from '../dom';
import { sizeText } from '../format';
import { Table } from '../read';

export class SummaryPanel {
  readonly root = element('div', { class: 'summary' });
  private shown = '';

  constructor(private readonly app: App) {}

  draw() {
    const { app } = this;
    const key = `${app.state.run}/${app.state.device}`;
    if (this.shown === key) return;
    this.shown = key;
    const { run } = app;
    const parts: HTMLElement[] = [];
    const summary = app.summary;
    if (summary.length) {
      const [first, ...rest] = summary;
      parts.push(element('section', { class: 'card', id: 'summary', 'aria-label': 'Summary' },
        element('h2', {}, 'Summary'), element('p', { class: 'lead' }, first),
        ...(rest.length ? [element('ul', {}, ...rest.map((line) => element('li', {}, line)))] : [])));
    }
    for (const table of run.tables) {
      if (table.rows.length && table.device === app.state.device) parts.push(bars(table));
    }
    if (run.meta.length) {
      parts.push(element('section', { class: 'card meta', 'aria-label': 'Facts of the run' }, element('h2', {}, 'The run'),
        element('dl', {}, ...run.meta.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]))));
    }
    this.root.replaceChildren(...parts);
  }
}

function bars(table: Table): HTMLElement {
  const most = Math.max(1, ...table.rows.map((row) => row.bytes ?? 0));
  let below = 0;
  const rows = table.rows.map((row) => {
    const from = table.cumulative ? Math.min(below, row.bytes ?? 0) : 0;
    if (row.bytes !== null) below = row.bytes;
    const percent = (bytes: number) => `${((bytes / most) * 100).toFixed(2)}%`;
    const style = row.bytes === null ? '' : `--from:${percent(from)};--to:${percent(row.bytes)}`;
    return element('tr', { class: row.emphasized ? 'emphasized' : '' },
      element('th', { scope: 'row' }, row.label, ...(row.note ? [element('small', {}, row.note)] : [])),
      element('td', { class: row.bytes ? 'bar' : '', style, 'aria-hidden': 'true' }),
      element('td', { class: 'number' }, bytesElement(row.bytes, `${row.is_less ? '−' : table.changes && row.bytes ? '+' : ''}${sizeText(row.bytes)}`)));
  });
  return element('section', { class: `card bars ${table.cumulative ? 'ladder' : ''}`, 'aria-label': table.title },
    element('h2', {}, table.title), element('table', {}, element('tbody', {}, ...rows)));
}
