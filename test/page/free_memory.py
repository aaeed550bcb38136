"""Compares what a page says about free memory with its columns."""


def check_free_memory(page):
    """Checks that the pointer shows the owner of free memory."""
    page.open()
    left, top, width, height = page.box(".map canvas")
    for part in range(1, 60):
        page.browser.mouse("mouseMoved", left + 104 + (width - 114) * (part % 10 + 0.5) / 10, top + height * part / 60)
        text = page.text(".tip") or ""
        if text.startswith("free, in a segment of"):
            assert "0x" in text and ("stream " in text or "not used since" in text), text
            page.browser.click(left + 104 + (width - 114) * (part % 10 + 0.5) / 10, top + height * part / 60)
            check_place(page)
            return
    raise AssertionError("no free memory under the pointer")


# Free memory at some addresses after some events: the page's texts, and the texts that its columns
# imply.
PLACES = """(async () => {
  const {run, device} = millrace, {blocks, segments, free} = run, none = 0xffffffff;
  const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  const fact = name => document.querySelector(`#place [data-fact="${name}"]`)?.innerText ?? null;
  const kind = run.askers.find(asker => asker.device === device.device);
  const all = Array.from({length: blocks.count}, (_, i) => ({
    device: blocks.device[i], low: blocks.address[i], high: blocks.address[i] + blocks.bytes[i], stream: blocks.stream[i],
    begin: blocks.allocated[i] === none ? 0 : blocks.allocated[i],
    end: Math.max(blocks.freed[i] === none ? run.events : blocks.freed[i], blocks.ready[i] === none ? 0 : blocks.ready[i])}))
    .filter(block => block.device === device.device && block.low >= 0);
  const takenAfter = (low, high, event) => Math.min(none, ...all.filter(b => b.begin > event && b.low < high && b.high > low).map(b => b.begin));
  /** What the page must say: [begin of the text, when it changes]. */
  const usable = (at, event, segment) => {
    const asker = millrace.state.asker;
    if (!device.knowsStranded || asker < 0) return ['not known', none];
    if (segments.pool[segment] !== device.poolOf(asker)) return ['no: it asks from another pool', none];
    if (!kind?.shares) return segments.stream[segment] === none ? ['not known', none] : [segments.stream[segment] === asker ? 'now' : 'no: its segment', none];
    const i = free.address.findIndex((low, i) => free.device[i] === device.device && low <= at && at < low + free.bytes[i] &&
                                     free.from[i] <= event && event < free.to[i]);
    if (i < 0) return [kind.fixed ? 'now' : 'not known', none];
    if (free.stream[i] === asker) return ['now', none];
    if (free.to[i] >= run.events) return ['not within the run', none];
    const taken = takenAfter(at, at + 1, event), back = segments.unmapped[segment];
    if (free.to[i] < Math.min(taken, back)) return ['from ', free.to[i]];
    return [`not before it is ${taken <= back ? 'taken again' : 'given back'} at `, free.to[i]];
  };
  const found = [];
  const samples = [];
  const step = Math.max(1, Math.floor(run.events / 40));
  for (let event = Math.floor(step / 2); event < run.events; event += step) {
    const here = [...segments.address.keys()].filter(s => segments.device[s] === device.device && segments.address[s] >= 0 &&
      (segments.mapped[s] === none || segments.mapped[s] <= event) && segments.unmapped[s] > event);
    for (const part of here.length ? [0.1, 0.5, 0.9] : []) {
      const s = here[Math.floor(event * 7 + part * 10) % here.length];
      samples.push([Math.floor(segments.address[s] + segments.bytes[s] * part), event]);
    }
  }
  const every = Math.ceil(free.address.length / 40);
  for (let i = 0; i < free.address.length; i += every) if (free.device[i] === device.device && free.from[i] < run.events) samples.push([free.address[i], free.from[i]]);
  for (const [at, event] of samples) {
    const s = device.segmentAt(at, event);
    const live = all.filter(b => b.begin <= event && b.end > event);
    if (s < 0 || live.some(b => b.low <= at && at < b.high)) continue;
    const low = Math.max(segments.address[s], ...live.filter(b => b.high <= at).map(b => b.high));
    const high = Math.min(segments.address[s] + segments.bytes[s], ...live.filter(b => b.low > at).map(b => b.low));
    const mapped = segments.mapped[s] === none ? 0 : segments.mapped[s];
    const ends = all.filter(b => b.begin >= mapped && b.begin <= event && b.low < high && b.high > low).map(b => b.end);
    const since = ends.length || segments.mapped[s] !== none ? Math.max(mapped, ...ends) : none;
    millrace.update({block: -1, place: at, moment: event});
    await drawn();
    const [text, when] = usable(at, event, s);
    const until = Math.min(takenAfter(low, high, event), segments.unmapped[s]);
    const asker = run.streams[millrace.state.asker];
    found.push({at: [at, event],
      shown: [fact('free since'), fact('taken again'), fact(asker ? `usable by ${asker.name.toLowerCase()}` : 'usable')],
      since: millrace.momentText(since, 'before the first event'), until: millrace.momentText(until, 'not within the run'),
      usable: text, when: when === none ? '' : millrace.momentText(when, '')});
  }
  millrace.update({place: -1});
  return found;
})()"""


def check_places(page):
    """Checks sampled places: the whole range is free for the time that is shown, and the page says
    correctly which stream may use it and from when on. Returns how often each text was seen."""
    seen = {}
    for place in page.js(PLACES):
        since, until, usable = place["shown"]
        assert since == place["since"] and until == place["until"], place
        assert usable.startswith(place["usable"] + place["when"]), place
        assert place["usable"] != "now" and place["usable"] != "not known" or usable == place["usable"], place
        seen[place["usable"].strip()] = seen.get(place["usable"].strip(), 0) + 1
    assert seen, "no free memory at the sampled places"
    return seen


def check_unknown_stream(page):
    """Checks that the page does not call memory of an unknown stream usable."""
    page.open()
    page.js("millrace.run.segments.stream.fill(0xffffffff), millrace.run.free.from.fill(0xffffffff), 0")
    assert set(check_places(page)) <= {"not known", "no: it asks from another pool"}


def check_place(page):
    """Checks a click into free memory: it shows size, owner and time; a key selects the segment."""
    fact = lambda name: page.text(f'#place [data-fact="{name}"]')  # noqa: E731
    state = page.state()
    assert page.text("#place h2").startswith("Free memory") and "place" in state, state
    # The gap between live blocks, from the columns alone.
    low, high, freed = page.js("""(() => { const {run, device, state} = millrace; const {blocks, segments} = run; const at = state.place;
        const s = device.segmentAt(at, state.moment); let [low, high, freed] = [segments.address[s], segments.address[s] + segments.bytes[s], 0];
        for (let i = 0; i < blocks.count; i++) {
          const [begin, end] = [blocks.allocated[i], Math.max(...[blocks.freed[i], blocks.ready[i]].filter((e, j) => j === 0 || e !== 0xffffffff))];
          const [a, b] = [blocks.address[i], blocks.address[i] + blocks.bytes[i]];
          if (blocks.device[i] !== state.device || (begin !== 0xffffffff && begin > state.moment) || a < 0) continue;
          if (end > state.moment) { if (b <= at) low = Math.max(low, b); else if (a > at) high = Math.min(high, a); }
          else if (a <= at && at < b) freed = Math.max(freed, end); }
        return [low, high, freed]; })()""")
    assert page.bytes('#place [data-fact="free"]') == high - low > 0
    assert int(fact("from"), 16) == low
    assert fact("free since") and fact("taken again") and fact("stream") and fact("reserved since")
    user = page.js("document.querySelector('#place [data-fact=\"last user\"] button')?.dataset.block ?? null")
    assert (user is not None) == (freed > 0), (user, freed)
    usable = page.js("[...document.querySelectorAll('#place dt')].filter(e => e.innerText.startsWith('Usable by ')).length")
    assert usable == 1
    assert page.bytes('#place [data-fact="segment"]') >= high - low
    page.open("&".join(f"{key}={value}" for key, value in state.items()))
    assert page.bytes('#place [data-fact="free"]') == high - low, "a link does not keep the selected memory"
    if user is not None:
        page.browser.run("document.querySelector('#place [data-fact=\"last user\"] button').click()")
        page.browser.settle()
        assert page.state()["block"] == user and page.text("#place h2") is None
        page.browser.key("g")
        assert page.text("#place h2").startswith("Segment") and page.bytes('#place [data-fact="live in it"]') > 0
    page.browser.key("Escape")
    assert "place" not in page.state()
