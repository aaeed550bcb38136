// The bar at the top: what is shown, the colors, and the search.

import { App } from './app';
import { element } from './dom';
import { countText, sizeText } from './format';
import { mixed } from './palette';
import { Coloring } from './state';

export class Toolbar {
  readonly root: HTMLElement;
  readonly search: HTMLInputElement;
  private readonly found = element('output', { class: 'found', id: 'found', 'aria-live': 'polite' });
  private readonly choices = element('div', { class: 'choices-bar' });
  private readonly legend = element('ul', { class: 'legend', id: 'legend', 'aria-label': 'Colors' });
  private key = '';

  constructor(private readonly app: App, help: HTMLDialogElement) {
    this.search = element('input', {
      type: 'search', id: 'search', placeholder: 'Search: text, stream:copy, >64MiB, 0x7f…   ( / )', 'aria-label': 'Search blocks',
      spellcheck: 'false', autocomplete: 'off', input: () => app.update({ query: this.search.value }),
    });
    const button = (text: string, title: string, click: () => void) =>
      element('button', { class: 'plain', title, click }, text);
    this.root = element('header', {},
      element('h1', { title: app.title }, app.title), this.choices,
      element('div', { class: 'searching', role: 'search' }, this.search, this.found),
      button('Fit', 'The whole run (0)', () => app.fit()),
      button('◐', 'Dark or light (T)', () => app.update({ theme: app.dark ? 'light' : 'dark' })),
      button('?', 'Help (?)', () => help.showModal()));
  }

  get legendElement(): HTMLElement {
    return this.legend;
  }

  draw() {
    const { app } = this;
    const { state } = app;
    if (document.activeElement !== this.search && this.search.value !== state.query) this.search.value = state.query;
    this.found.textContent = !state.query || !app.matches ? ''
      : `${countText(app.matches.count)} found, ${sizeText(app.matches.atPeak)} at the peak`;
    const key = [state.run, state.device, state.axis, state.coloring, state.asker, app.dark].join();
    if (key === this.key) return;
    this.key = key;
    this.drawChoices();
    this.legend.replaceChildren(...this.legendItems());
  }

  private drawChoices() {
    const { app } = this;
    const { state } = app;
    const select = (label: string, value: number | string, options: [number | string, string][], set: (value: string) => void) =>
      element('label', {}, `${label} `, element('select', {
        'aria-label': label, change: (event: Event) => set((event.target as HTMLSelectElement).value),
      }, ...options.map(([option, text]) => element('option', { value: option, selected: option === value }, text))));
    const parts: HTMLElement[] = [];
    if (app.runs.length > 1) {
      parts.push(select('Run', state.run, app.runs.map((run, i) => [i, `${'AB'[i]}: ${run.name}`]), (v) => app.update({ run: Number(v) })));
    }
    if (app.run.devices > 1) {
      parts.push(select('Device', state.device, Array.from({ length: app.run.devices }, (_, i) => [i, String(i)]),
        (v) => app.update({ device: Number(v) })));
    }
    if (app.runs.every((run) => run.times)) {
      parts.push(select('Axis', state.axis, [['time', 'time'], ['events', 'events']], (v) => app.update({ axis: v as 'time' | 'events' })));
    }
    parts.push(select('Color by', state.coloring, app.colorings.map((coloring) => [coloring, coloring]), (v) => app.update({ coloring: v as Coloring })));
    if (app.device.knowsStranded && app.askers.length > 1) {
      parts.push(select('Stranded for', state.asker, app.askers.map((stream) => [stream, app.run.streams[stream].name]),
        (v) => app.update({ asker: Number(v) })));
    }
    this.choices.replaceChildren(...parts);
  }

  private legendItems(): HTMLElement[] {
    const { app } = this;
    const { palette, state } = app;
    const item = (color: string, text: string, kind = '', of = 'state') =>
      element('li', { title: text, class: of }, element('i', { class: kind, style: `--color:${color}` }), text);
    const states = [item(palette.free, 'free')];
    const { live, held } = app.device.levels;
    if (app.device.rounds && held.some((bytes, i) => bytes > live[i])) {
      states.push(item(mixed(palette.live, palette.background, 0.55), 'rounding'));
    }
    if (app.device.waits) states.push(item(palette.waiting, 'waiting for work that uses it', 'hatched'));
    if (app.device.knowsStranded) {
      const asker = app.run.streams[state.asker]?.name ?? 'the stream';
      states.push(item(palette.stranded, `stranded: free, but not for ${asker}`, 'hatched'));
    }
    if (app.runs.length > 1) states.push(item(palette.second, `${'AB'[1 - app.state.run]}: reserved, live (dashed)`));
    return [...app.blockColors().legend.map(({ color, text }) => item(color, text, '', 'name')), element('li', { class: 'space' }), ...states];
  }
}
