// What is shown of the data, and how: everything that a link keeps.

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
  asker: number; // stream; free memory of others is stranded for it
  coloring: Coloring;
  grouping: Grouping;
  query: string;
  block: number; // selected; -1: none
  place: number; // selected address of free memory or of a segment; -1: none
  moment: number; // the event after which it is looked at
  at: number; // x of the moment that the table of holders is about; NaN: the peak
  theme: 'system' | 'light' | 'dark';
}

const TEXTS: (keyof ViewState)[] = ['axis', 'coloring', 'grouping', 'query', 'theme'];
const CHOICES: Partial<Record<keyof ViewState, string[]>> = {
  axis: ['time', 'events'],
  coloring: COLORINGS,
  grouping: GROUPINGS,
  theme: ['system', 'light', 'dark'],
};

/** The part of a link after `#`: what differs from `usual`. */
export function toFragment(state: ViewState, usual: ViewState): string {
  const out = new URLSearchParams();
  for (const key of Object.keys(usual) as (keyof ViewState)[]) {
    const value = state[key];
    if (!Object.is(value, usual[key])) out.set(key, typeof value === 'number' ? String(rounded(value)) : value);
  }
  return out.toString();
}

/** Reads a link; what does not make sense is left as in `usual`. */
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
