// The events that each column of pixels stands for. All tracks of a picture share them. A column
// shows the moment with the most live bytes, so that all peaks are visible and all tracks agree.

import { App } from './app';
import { lowerBound } from './pyramid';

export interface PixelColumns {
  /** Number of columns that the run reaches. Later columns are empty. */
  count: number;
  /** The events with the most and the least live bytes of each column. */
  most: Int32Array;
  least: Int32Array;
  /** The range of events of each column. The values of its first event hold at the column's left
   * edge. */
  from: Int32Array;
  to: Int32Array;
  /** For each event from `base` on: the first column that shows a moment at or after it. Later
   * events have `count`. */
  first: Uint16Array;
  base: number;
}

export function pixelColumns(app: App, run: number, width: number): PixelColumns {
  const data = app.runs[run];
  const device = app.deviceOf(run);
  const { x0, x1 } = app.state;
  const times = app.state.axis === 'time' ? data.times : null;
  const [most, least, from, to] = Array.from({ length: 4 }, () => new Int32Array(width));
  const end = app.axis.ofEvent(data, data.events);
  let count = 0;
  let next = times ? lowerBound(times, x0) : Math.min(data.events, Math.ceil(x0));
  for (let column = 0; column < width && data.events > 0; column++) {
    if (x0 + ((x1 - x0) * column) / width > end) break;
    const right = x0 + ((x1 - x0) * (column + 1)) / width;
    from[column] = Math.max(next - 1, 0);
    next = times ? lowerBound(times, right, next) : Math.min(data.events, Math.ceil(right));
    to[column] = Math.max(next, from[column] + 1);
    const single = to[column] - from[column] === 1;
    most[column] = single ? from[column] : device.livePyramid.argMax(from[column], to[column]);
    least[column] = single ? from[column] : device.livePyramid.argMin(from[column], to[column]);
    count++;
  }
  const base = count ? most[0] : 0;
  const first = new Uint16Array(count ? most[count - 1] - base + 1 : 0);
  for (let column = 1; column < count; column++) {
    first.fill(column, most[column - 1] - base + 1, most[column] - base + 1);
  }
  return { count, most, least, from, to, first, base };
}
