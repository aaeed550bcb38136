// The x axis: time since the start of a run, or the number of an event. Two runs begin at the same
// x.

import { lowerBound, upperBound } from './pyramid';
import { Run } from './read';

export type AxisMode = 'time' | 'events';

export class Axis {
  readonly end: number;

  constructor(readonly mode: AxisMode, readonly runs: Run[]) {
    this.end = Math.max(1, ...runs.map((run) => this.endOf(run)));
  }

  private timed(run: Run): Float64Array | null {
    return this.mode === 'time' ? run.times : null;
  }

  private endOf(run: Run): number {
    const times = this.timed(run);
    let end = this.ofEvent(run, run.events);
    if (this.mode === 'time' || !run.times) {
      const { operations, counters } = run;
      for (let i = 0; i < operations.count; i++) end = Math.max(end, operations.end[i]);
      for (const counter of counters) if (counter.at.length) end = Math.max(end, counter.at[counter.at.length - 1]);
    }
    return times && end === 0 ? 1 : end;
  }

  ofEvent(run: Run, event: number): number {
    const times = this.timed(run);
    if (!times) return event;
    return times.length ? times[Math.min(event, times.length - 1)] : 0;
  }

  /** x of a moment of the run's clock. */
  ofClock(run: Run, clock: number): number {
    return this.mode === 'events' && run.times ? lowerBound(run.times, clock) : clock;
  }

  /** The last event at or before x; -1: none. */
  eventAt(run: Run, x: number): number {
    const times = this.timed(run);
    if (!times) return Math.min(Math.floor(x), run.events - 1);
    return upperBound(times, x) - 1;
  }

  /** x of many events. */
  ofEvents(run: Run, events: Uint32Array): Float64Array {
    const times = this.timed(run);
    if (!times) return Float64Array.from(events);
    const last = times.length ? times[times.length - 1] : 0;
    const xs = new Float64Array(events.length);
    for (let i = 0; i < xs.length; i++) xs[i] = events[i] < times.length ? times[events[i]] : last;
    return xs;
  }

  label(x: number): string {
    if (this.mode === 'events') return `event ${Math.round(x).toLocaleString('en-US')}`;
    return this.timeText(x);
  }

  private timeText(ns: number): string {
    const size = Math.abs(ns);
    if (size >= 1e9) return `${round(ns / 1e9)} s`;
    if (size >= 1e6) return `${round(ns / 1e6)} ms`;
    return `${round(ns / 1e3)} µs`;
  }

  /** Positions for about `count` labels within [from, to]. */
  ticks(from: number, to: number, count: number): { x: number; text: string }[] {
    const step = roundStep((to - from) / Math.max(count, 1));
    const unit = this.mode === 'events' ? 1 : to >= 1e9 && step >= 1e5 ? 1e9 : to >= 1e6 && step >= 100 ? 1e6 : 1e3;
    const suffix = this.mode === 'events' ? '' : unit === 1e9 ? ' s' : unit === 1e6 ? ' ms' : ' µs';
    const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
    const out = [];
    for (let x = Math.ceil(from / step) * step; x <= to; x += step) {
      const value = x / unit;
      const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
      out.push({ x, text: value.toLocaleString('en-US', options) + suffix });
    }
    return out;
  }
}

function round(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString('en-US', { maximumFractionDigits: 6 });
}

/** 1, 2 or 5 times a power of ten, and at least `step`. */
export function roundStep(step: number): number {
  const power = 10 ** Math.floor(Math.log10(step));
  for (const factor of [1, 2, 5]) if (step <= factor * power) return factor * power;
  return 10 * power;
}
