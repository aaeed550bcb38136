// Operations that need no pointer.

import { App } from './app';
import { element } from './dom';
import { UNKNOWN } from './read';
import { nextOwner, previousOwner } from './reuse';

const KEYS: [string, string][] = [
  ['← →  or  A D', 'move in time'],
  ['↑ ↓  or  W S', 'zoom in and out'],
  ['Shift ↑ ↓, Shift ← →', 'zoom addresses; move the moment whose holders are listed'],
  ['0', 'the whole run'],
  ['P', 'go to the peak'],
  ['N, Shift N', 'next and previous match of the search, or block'],
  ['[ ]', 'the block that had this memory before, and after'],
  ['F', 'zoom to the selected block'],
  ['G', 'the segment of the selected block'],
  ['C', 'next coloring'],
  ['E', 'time or events on the axis'],
  ['R', 'the other run'],
  ['T', 'dark or light'],
  ['/', 'search'],
  ['Esc', 'end the search, then the selection'],
  ['?', 'this help'],
];
const POINTER: [string, string][] = [
  ['Wheel', 'zoom; with Shift: move; with Alt, over the map: zoom addresses'],
  ['Drag', 'move; with Shift, or in the overview: choose a range'],
  ['Click', 'map: select a block or free memory; memory: holders at that moment'],
  ['Double click', 'map: zoom to a block; memory: back to the peak'],
];
const SEARCH: [string, string][] = [
  ['any text', 'in a tag, a stream or a line of the stack'],
  ['stream:  tag:  site:', 'in this name only'],
  ['>64MiB  <4KiB  =512', 'sizes'],
  ['0x7f12a0000', 'blocks that had this address'],
  ['live  freed', 'at the end of the run'],
];

export function helpDialog(): HTMLDialogElement {
  const table = (title: string, rows: [string, string][]) =>
    element('section', {}, element('h3', {}, title), element('table', {}, element('tbody', {},
      ...rows.map(([key, text]) => element('tr', {}, element('th', { scope: 'row' }, key), element('td', {}, text))))));
  const dialog = element('dialog', { class: 'help', 'aria-label': 'Help' },
    element('form', { method: 'dialog' }, element('button', { class: 'plain' }, 'Close')),
    element('h2', {}, 'Help'), table('Keys', KEYS), table('Pointer', POINTER), table('Search', SEARCH));
  return dialog;
}

export function listenToKeys(app: App, search: HTMLInputElement, help: HTMLDialogElement) {
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const target = event.target as HTMLElement;
    if (target === search) {
      if (event.key === 'Escape' || event.key === 'Enter') search.blur();
      if (event.key === 'Escape') app.update({ query: '' });
      if (event.key === 'Enter') step(app, 1);
      return;
    }
    if (target.matches('input, select, textarea')) return;
    if (act(app, search, help, event)) event.preventDefault();
  });
}

function act(app: App, search: HTMLInputElement, help: HTMLDialogElement, event: KeyboardEvent): boolean {
  const { state } = app;
  const span = state.x1 - state.x0;
  const middle = (state.x0 + state.x1) / 2;
  if (event.shiftKey && event.key.startsWith('Arrow')) {
    if (event.key === 'ArrowUp') zoomAddresses(app, 0.7);
    else if (event.key === 'ArrowDown') zoomAddresses(app, 1 / 0.7);
    else moveMoment(app, event.key === 'ArrowLeft' ? -1 : 1);
    return true;
  }
  switch (event.key) {
    case 'ArrowLeft': case 'a': app.pan(-span / 8); break;
    case 'ArrowRight': case 'd': app.pan(span / 8); break;
    case 'ArrowUp': case 'w': case '+': app.zoom(0.7, middle); break;
    case 'ArrowDown': case 's': case '-': app.zoom(1 / 0.7, middle); break;
    case '0': case 'Home': app.fit(); break;
    case 'p': toPeak(app); break;
    case 'n': step(app, 1); break;
    case 'N': step(app, -1); break;
    case '[': follow(app, previousOwner); break;
    case ']': follow(app, nextOwner); break;
    case 'f': if (state.block >= 0) app.zoomTo(state.block); break;
    case 'g': toSegment(app); break;
    case 'c': app.update({ coloring: app.colorings[(app.colorings.indexOf(state.coloring) + 1) % app.colorings.length] }); break;
    case 'e': app.update({ axis: state.axis === 'time' ? 'events' : 'time' }); break;
    case 'r': app.update({ run: (state.run + 1) % app.runs.length }); break;
    case 't': app.update({ theme: app.dark ? 'light' : 'dark' }); break;
    case '/': search.focus(); search.select(); break;
    case '?': help.showModal(); break;
    case 'Escape': app.update(state.query ? { query: '' } : { block: -1, place: -1 }); break;
    default: return false;
  }
  return true;
}

function zoomAddresses(app: App, factor: number) {
  const { y0, y1 } = app.state;
  const span = Math.min(1, Math.max((y1 - y0) * factor, 1e-6));
  const low = Math.min(Math.max((y0 + y1 - span) / 2, 0), 1 - span);
  app.update({ y0: low, y1: low + span });
}

/** Moves by a hundredth of the shown range, and by at least one event. */
function moveMoment(app: App, by: number) {
  const { state, axis, run } = app;
  const x = axis.ofEvent(run, app.moment());
  const next = axis.ofEvent(run, Math.min(Math.max(app.moment() + by, 0), run.events - 1));
  const step = Math.max((state.x1 - state.x0) / 100, Math.abs(next - x));
  app.update({ at: Math.min(Math.max(x + by * step, 0), axis.end) });
}

function toPeak(app: App) {
  const x = app.axis.ofEvent(app.run, app.device.peak);
  const span = Math.min(app.state.x1 - app.state.x0, app.axis.end / 20);
  const x0 = Math.min(Math.max(0, x - span / 2), app.axis.end - span);
  app.update({ at: NaN, x0, x1: x0 + span });
}

function toSegment(app: App) {
  const { allocated, address } = app.run.blocks;
  const { block } = app.state;
  if (block >= 0 && address[block] >= 0) app.update({ place: address[block], moment: allocated[block] === UNKNOWN ? 0 : allocated[block] });
}

function follow(app: App, owner: typeof previousOwner) {
  const block = app.state.block < 0 ? -1 : owner(app.device, app.state.block);
  if (block >= 0) select(app, block);
}

/** The next block that the search found. Without a search, the next block. */
function step(app: App, by: number) {
  const { device, matches, state } = app;
  const count = device.order.length;
  let k = state.block < 0 ? (by > 0 ? -1 : count) : device.positionOf(state.block);
  for (k += by; k >= 0 && k < count; k += by) {
    if (matches && !matches.found[k]) continue;
    select(app, device.order[k]);
    return;
  }
}

/** Selects a block and brings it into view. */
function select(app: App, block: number) {
  const k = app.device.positionOf(block);
  const { begin, end } = app.device.placed(app.axis);
  const { x0, x1 } = app.state;
  app.update({ block });
  if (end[k] < x0 || begin[k] > x1) app.pan((begin[k] + Math.min(end[k], begin[k] + (x1 - x0) / 2)) / 2 - (x0 + x1) / 2);
}
