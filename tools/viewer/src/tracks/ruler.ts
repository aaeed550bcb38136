// The axis with its labels, and the marks of the run: annotations, errors, the peak.

import { App } from '../app';
import { Mark } from '../read';
import { fitted, Track } from './track';

const HEIGHT = 22;
const BAND = 15;
const MOST_BANDS = 4;

export class Ruler extends Track {
  constructor(app: App) {
    super(app, 'Axis and annotations', 'ruler');
  }

  protected wantedHeight(): number {
    return HEIGHT + this.bands().length * BAND;
  }

  private packed: { key: string; bands: Mark[][] } = { key: '', bands: [] };

  /** Packs annotations into bands, so that none overlaps another in its band. */
  private bands(): Mark[][] {
    const key = `${this.app.state.run}/${this.app.state.device}`;
    if (this.packed.key === key) return this.packed.bands;
    const bands: Mark[][] = [];
    this.packed = { key, bands };
    const marks = this.app.run.marks.filter(
      (mark) => mark.end > mark.begin && (mark.device === null || mark.device === this.app.state.device),
    );
    for (const mark of marks.sort((a, b) => a.begin - b.begin || b.end - a.end)) {
      const band = bands.find((marks) => marks[marks.length - 1].end <= mark.begin);
      if (band) band.push(mark);
      else if (bands.length < MOST_BANDS) bands.push([mark]);
    }
    return bands;
  }

  protected paint() {
    const { context, app } = this;
    const { x0, x1 } = app.state;
    context.font = '10.5px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    for (const { x, text } of app.axis.ticks(x0, x1, this.width / 110)) {
      context.fillStyle = app.palette.grid;
      context.fillRect(Math.round(this.px(x)), HEIGHT - 5, 1, 5);
      context.fillStyle = app.palette.faint;
      const shown = app.state.axis === 'time' ? text : app.eventName(Math.floor(x)).split(' ').pop()!;
      context.fillText(shown, this.px(x), HEIGHT / 2 - 2);
    }
    const word = app.run.eventWord;
    const title = app.state.axis === 'time' ? 'Time' : word.charAt(0).toUpperCase() + word.slice(1);
    this.label(title, HEIGHT / 2 - 2, { faint: true });
    this.bands().forEach((band, i) => this.paintBand(band, HEIGHT + i * BAND));
  }

  private paintBand(band: Mark[], top: number) {
    const { context, app, width } = this;
    let last = -1;
    for (const mark of band) {
      const [left, right] = [mark.begin, mark.end].map((clock) => this.px(app.axis.ofClock(app.run, clock)));
      const from = Math.max(left, this.px(app.state.x0));
      const to = Math.min(right, this.px(app.state.x0) + width);
      if (to - from <= 0 || Math.round(to) === last) continue;
      last = Math.round(to);
      context.fillStyle = app.palette.surface;
      context.fillRect(from, top, Math.max(1, to - from - 1), BAND - 2);
      context.fillStyle = app.palette.accent;
      context.fillRect(from, top, 2, BAND - 2);
      if (to - from < 24) continue;
      context.textAlign = 'left';
      context.fillStyle = app.palette.text;
      context.fillText(fitted(context, mark.text, to - from - 10), from + 6, top + BAND / 2 - 1);
    }
  }
}
