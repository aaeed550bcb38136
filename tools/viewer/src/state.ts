// What part of the data is shown, and how. A link keeps all of it.

import { AxisMode } from './axis';

export type Coloring = 'stream' | 'tag' | 'site' | 'age' | 'size';
export const COLORINGS: Coloring[] = ['stream', 'tag', 'site', 'age', 'size'];
export type Grouping = 'site' | 'tag' | 'stream' | 'size';
export const GROUPINGS: Grouping[] = ['site', 'tag', 'stream', 'size'];

export interface ViewState {
  axis: AxisMode;
  x0: number;
  x1: number;
  y0: number; // part of the address space, from 0 to 1
  y1: number;
  run: number; // the run whose blocks are shown
  device: number;
  asker: number; // stream; free memory that it cannot use is stranded
  coloring: Coloring;
  grouping: Grouping;
  query: string;
  block: number; // selected; -1: none
  place: number; // selected address of free memory or of a segment; -1: none
  moment: number; // the event after which `place` is shown
  at: number; // x of the moment of the holders; NaN: the peak
  theme: 'system' | 'light' | 'dark';
}

const TEXTS: (keyof ViewState)[] = ['axis', 'coloring', 'grouping', 'query', 'theme'];
const CHOICES: Partial<Record<keyof ViewState, string[]>> = {
  axis: ['time', 'events'],
  coloring: COLORINGS,
  grouping: GROUPINGS,
  theme: ['system', 'light', 'dark'],
};

/** The part of a link after `#`. It contains the values that differ from `usual`. */
export function toFragment(state: ViewState, usual: ViewState): string {
  const out = new URLSearchParams();
  for (const key of Object.keys(usual) as (keyof ViewState)[]) {
    const value = state[key];
    if (!Object.is(value, usual[key])) out.set(key, typeof value === 'number' ? String(rounded(value)) : value);
  }
  return out.toString();
}

/** Reads a link. Invalid values are replaced by those of `usual`. */
export function fromFragment(fragment: string, usual: ViewState): ViewState {
  const state = { ...usual };
  for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ''))) {
    const key = name as keyof ViewState;
    if (!(key in usual)) continue;
    if (TEXTS.includes(key)) {
      if (!CHOICES[key] || CHOICES[key]!.includes(text)) Object.assign(state, { [key]: text });
    } else if (text !== '' && Number.isFinite(Number(text))) {
      Object.assign(state, { [key]: Number(text) });
    }
  }
  return state;
}

function rounded(value: number): number {
  return Number.isInteger(value) ? value : Number(value.toPrecision(9));
}
