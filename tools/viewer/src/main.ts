// Assembles the page, and redraws it after changes.

import { App } from './app';
import { element } from './dom';
import { sizeText } from './format';
import { helpDialog, listenToKeys } from './keyboard';
import { HoldersPanel } from './panel/holders';
import { PlacePanel } from './panel/place';
import { SelectionPanel } from './panel/selection';
import { SummaryPanel } from './panel/summary';
import { Pointer } from './pointer';
import { readPage } from './read';
import { Toolbar } from './toolbar';
import { StreamBytesTrack } from './tracks/bystream';
import { Lanes } from './tracks/lanes';
import { MapTrack } from './tracks/map';
import { MemoryTrack } from './tracks/memory';
import { Overview } from './tracks/overview';
import { Ruler } from './tracks/ruler';

async function start() {
  const root = document.getElementById('app')!;
  const { title, runs } = await readPage();
  document.title = title ? `${title} · Millrace` : 'Millrace';
  const app = new App(title || 'Millrace', runs);
  const help = helpDialog();
  const toolbar = new Toolbar(app, help);
  const overview = new Overview(app);
  const ruler = new Ruler(app);
  const [memory, byStream, map, lanes] = [new MemoryTrack(app), new StreamBytesTrack(app), new MapTrack(app), new Lanes(app)];
  const zoomed = [ruler, memory, byStream, map, lanes];
  const tracks = element('div', { class: 'tracks', id: 'tracks' }, ...zoomed.map((track) => track.root));
  const selection = new SelectionPanel(app);
  const place = new PlacePanel(app);
  const summary = new SummaryPanel(app);
  const holders = new HoldersPanel(app);
  const main = element('main', {}, overview.root, toolbar.legendElement, tracks);
  const side = element('aside', { 'aria-label': 'Explanation' }, selection.root, place.root, summary.root, holders.root);
  root.replaceChildren(toolbar.root, element('div', { class: 'columns' }, main, side));
  document.body.append(help);
  new Pointer(app, tracks, zoomed, { memory, map, lanes });
  listenToKeys(app, toolbar.search, help);

  const draw = () => {
    document.documentElement.dataset.theme = app.dark ? 'dark' : 'light';
    toolbar.draw();
    for (const track of [overview, ...zoomed]) track.draw();
    memory.canvas.setAttribute('aria-label', spoken(app));
    selection.draw();
    place.draw();
    summary.draw();
    holders.draw();
  };
  app.onChange(draw);
  draw();
  new ResizeObserver(() => app.changed()).observe(main);
  Object.assign(globalThis, { millrace: app }); // for the console, and for tests
  performance.mark('millrace:shown');
  document.documentElement.dataset.ready = 'true';
  app.changed();
}

/** The content of the picture in words. */
function spoken(app: App): string {
  const { device, state } = app;
  const { live, reserved } = device.levels;
  return `Memory from ${app.label(state.x0)} to ${app.label(state.x1)}. At the peak, ${sizeText(live[device.peak])} live of `
    + `${reserved ? sizeText(reserved[device.peak]) : 'an amount that is not known'} reserved.`;
}

start().catch((error) => {
  const box = document.getElementById('app')!;
  box.textContent = `This page could not be shown: ${error instanceof Error ? error.message : error}. `
    + 'It needs a browser of 2023 or later.';
  box.setAttribute('role', 'alert');
  throw error;
});
