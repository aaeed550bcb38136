// A min/max pyramid over the values of a track. It finds the extremes of a range in logarithmic
// time, so that the cost of a picture depends on its pixels and not on its events.

const FACTOR = 16;

export class Pyramid {
  private readonly most: Uint32Array[] = []; // index of each group's greatest value
  private readonly least: Uint32Array[] = [];

  constructor(private readonly values: Float64Array) {
    let count = values.length;
    for (let level = 0; count > 1; level++) {
      const groups = Math.ceil(count / FACTOR);
      const most = new Uint32Array(groups);
      const least = new Uint32Array(groups);
      for (let group = 0; group < groups; group++) {
        const from = group * FACTOR;
        const to = Math.min(from + FACTOR, count);
        let high = this.highOf(level, from);
        let low = this.lowOf(level, from);
        for (let i = from + 1; i < to; i++) {
          const h = this.highOf(level, i);
          const l = this.lowOf(level, i);
          if (values[h] > values[high]) high = h;
          if (values[l] < values[low]) low = l;
        }
        most[group] = high;
        least[group] = low;
      }
      this.most.push(most);
      this.least.push(least);
      count = groups;
    }
  }

  /** Index of the greatest value in [from, to), the first of equal values. The range must not be
   * empty. */
  argMax(from: number, to: number): number {
    return this.best(from, to, this.most, 1);
  }

  argMin(from: number, to: number): number {
    return this.best(from, to, this.least, -1);
  }

  private best(from: number, to: number, levels: Uint32Array[], sign: number): number {
    const { values } = this;
    let best = from;
    let bestValue = values[from] * sign;
    for (let level = 0; from < to; level++) {
      const index = level === 0 ? null : levels[level - 1];
      const last = level === levels.length;
      while (from < to && (last || from % FACTOR !== 0)) {
        const at = index ? index[from] : from;
        const value = values[at] * sign;
        if (value > bestValue || (value === bestValue && at < best)) {
          best = at;
          bestValue = value;
        }
        from++;
      }
      while (from < to && to % FACTOR !== 0) {
        to--;
        const at = index ? index[to] : to;
        const value = values[at] * sign;
        if (value > bestValue || (value === bestValue && at < best)) {
          best = at;
          bestValue = value;
        }
      }
      from /= FACTOR;
      to /= FACTOR;
    }
    return best;
  }

  private highOf(level: number, i: number): number {
    return level === 0 ? i : this.most[level - 1][i];
  }

  private lowOf(level: number, i: number): number {
    return level === 0 ? i : this.least[level - 1][i];
  }
}

/** The first index whose value is above `x`. Values must ascend. */
export function upperBound(values: ArrayLike<number>, x: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] <= x) from = middle + 1;
    else to = middle;
  }
  return from;
}

export function lowerBound(values: ArrayLike<number>, x: number, from = 0, to = values.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] < x) from = middle + 1;
    else to = middle;
  }
  return from;
}
