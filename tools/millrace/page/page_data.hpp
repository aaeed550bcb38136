#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// @file
/// The content of a `--html` page, independent of its origin. Unknown values are kept as unknown,
/// and the page never shows them as 0.

namespace millrace::cli {

/// An index, stream or event that is unknown or does not exist.
inline constexpr std::uint32_t kUnknown = UINT32_MAX;
/// A size or an address that is unknown.
inline constexpr std::uint64_t kUnknownBytes = UINT64_MAX;

/** @brief Index of an event of a run, from 0. */
using PageEvent = std::uint32_t;

/** @brief A stream, with the name that the user knows: "main", "copy", "0x7f12a0". */
struct PageStream {
  std::uint32_t device = 0;
  std::string name;
};

/** @brief A line of a stack. Unknown values are empty or 0. */
struct PageFrame {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
};

/** @brief Why the stream of a block could use memory that an earlier block had. */
enum class PageReuse : std::uint8_t {
  unknown,
  fresh,        ///< no earlier block had this memory
  same_stream,  ///< the earlier block was used only on the same stream
  ordered,      ///< an event or a synchronization had ordered the streams
  completed,    ///< the earlier uses were known to be complete
};

/** @brief An allocation and its lifetime. */
struct PageBlock {
  std::uint64_t address = kUnknownBytes;
  std::uint64_t bytes = 0;                  ///< with rounding
  std::uint64_t requested = kUnknownBytes;  ///< without rounding
  std::uint32_t device = 0;
  std::uint32_t stream = kUnknown;  ///< index into `streams`
  PageEvent allocated = kUnknown;   ///< kUnknown: before the first event
  PageEvent freed = kUnknown;       ///< kUnknown: not freed in the run
  /// First event at which the block's own stream may use the memory, or another block has it. From
  /// `freed` until then the block waits. The number of events: not in the run. kUnknown: unknown.
  PageEvent ready = kUnknown;
  std::uint32_t tag = kUnknown;       ///< index into `tags`
  std::uint32_t stack = kUnknown;     ///< index into `stacks`
  std::uint32_t previous = kUnknown;  ///< block that last had the memory; index into `blocks`
  PageReuse reuse = PageReuse::unknown;
  std::uint32_t site = kUnknown;  ///< site of the allocation; index into `sites`
  std::uint32_t pool =
      kUnknown;         ///< pool of its segment; index into `pools`. kUnknown: the default pool
  bool placed = false;  ///< whether it is in one of `segments`
  std::uint32_t wait = kUnknown;  ///< if ordered, the wait that ordered it; index into `arrows`
};

/** @brief Memory from the driver, from the time it was mapped until it was unmapped. A part that is
 *         unmapped separately is a segment of its own. */
struct PageSegment {
  std::uint64_t address = kUnknownBytes;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = kUnknown;  ///< only this stream uses its free memory; kUnknown: any
  PageEvent mapped = kUnknown;      ///< kUnknown: before the first event
  PageEvent unmapped = kUnknown;    ///< kUnknown: not in the run
  std::uint32_t pool = kUnknown;    ///< index into `pools`; kUnknown: the default pool
  bool expandable = false;
};

/** @brief Free memory that only one stream can use for a time: the stream of its last block. It
 *         exists where segments are not bound to streams. */
struct PageFree {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  PageEvent from = 0, to = 0;  ///< `to` is excluded
};

/** @brief The stream that requests memory in the page's view of free memory. */
struct PageAsker {
  std::uint32_t device = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = kUnknown;  ///< index into `pools`; kUnknown: the default pool
  bool shares = false;            ///< streams share free memory: see `PageRun::free`
  bool fixed = false;             ///< stranded memory is known only for this stream
};

/** @brief The kinds of operations on a stream. */
enum class PageOperationKind : std::uint8_t { kernel, copy, fill, callback, wait, other };

/** @brief Work of a stream, or a time in which it waited. Times are on `PageRun`'s clock. */
struct PageOperation {
  std::uint32_t stream = 0;
  PageOperationKind kind = PageOperationKind::other;
  std::uint32_t name = kUnknown;  ///< index into `names`
  double begin = 0, end = 0;
};

/** @brief An order between two streams: from earlier work of one to later work of the other. */
struct PageArrow {
  std::uint32_t from_stream = 0, to_stream = 0;
  double from = 0, to = 0;
  /// The arrow explains why a reuse was safe, and is drawn only for that block. The run's waits
  /// have arrows of their own.
  bool for_reuse = false;
};

/** @brief A named moment or time span: an annotation, an error, the peak, a step. */
struct PageMark {
  enum class Kind : std::uint8_t { annotation, out_of_memory, peak, step };
  Kind kind = Kind::annotation;
  std::string text;
  double begin = 0, end = 0;        ///< equal for a moment
  std::uint32_t device = kUnknown;  ///< kUnknown: all devices
  PageEvent event = kUnknown;       ///< of a peak: the event that caused it
};

/** @brief A sampled quantity that cannot be derived from blocks and segments. */
struct PageCounter {
  enum class Kind : std::uint8_t { reserved, active, live, other };
  Kind kind = Kind::other;
  std::string name;
  std::uint32_t device = 0;
  /// Clock and bytes, in ascending order. A value holds until the next point; std::nullopt: unknown
  /// from here on.
  std::vector<std::pair<double, std::optional<std::uint64_t>>> points;
};

/** @brief A row of a comparison, drawn as a bar. */
struct PageRow {
  std::string label;
  std::optional<std::uint64_t> bytes;  ///< std::nullopt: unknown, see `note`
  std::string note;                    ///< its meaning or cost, or why there is no figure
  bool emphasized = false;             ///< the advice is about this row
  bool is_less = false;                ///< a change to `bytes` fewer than before
};

/** @brief Related rows: the ladder, the what-if replays, the parts of the peak. */
struct PageRows {
  std::string title;
  std::uint32_t device = 0;
  /// Each row includes the bytes of the rows above it, as on a ladder. Otherwise rows are
  /// independent.
  bool cumulative = false;
  bool changes = false;  ///< rows are differences
  std::vector<PageRow> rows;
};

/** @brief A sentence of the summary. */
struct PageSentence {
  std::string text;
  std::uint32_t device = kUnknown;  ///< kUnknown: all devices
};

/**
 * @brief One run on the page.
 *
 * Its clock counts microseconds if `times_us` has a time for each event, and otherwise events.
 */
struct PageRun {
  std::string name;  ///< a file, or a name of the run
  std::vector<std::pair<std::string, std::string>> meta;
  std::vector<PageSentence> summary;  ///< the most important first
  std::uint32_t devices = 1;
  PageEvent events = 0;
  std::vector<double> times_us;          ///< ascending, one per event; empty: the run has no times
  std::string event_word = "event";      ///< the user's word for an event: "event", "line"
  std::vector<std::uint32_t> positions;  ///< per event, the user's number for it. kUnknown: the
                                         ///< beginning, before all events. Empty: 0, 1, 2, ...
  std::vector<std::uint32_t> devices_of_events;  ///< empty: all on device 0

  std::vector<PageStream> streams;
  std::vector<std::string> tags;
  std::vector<std::string> sites;  ///< names of sites that allocate, as a command prints them
  std::vector<std::string> pools;  ///< names of all pools except the default one
  std::vector<PageAsker> askers;   ///< at most one per device
  std::vector<std::string> names;  ///< names of operations
  std::vector<PageFrame> frames;
  std::vector<std::vector<std::uint32_t>> stacks;  ///< indices into `frames`, the innermost first

  bool knows_rounding = true;  ///< whether `PageBlock::bytes` includes the rounding of sizes
  std::vector<PageBlock> blocks;
  std::vector<PageSegment> segments;
  std::vector<PageFree> free;  ///< on devices whose streams share free memory
  std::vector<PageOperation> operations;
  std::vector<PageArrow> arrows;
  std::vector<PageMark> marks;
  std::vector<PageCounter> counters;
  std::vector<PageRows> tables;
};

/** @brief Adds sentences to the summary. */
void add_sentences(PageRun& run, const std::vector<std::string>& sentences,
                   std::uint32_t device = kUnknown);

/** @brief A page: one run, or two runs on one axis. */
struct PageData {
  std::string title;
  std::vector<PageRun> runs;
};

/**
 * @brief Writes a self-contained HTML file that needs no network.
 *
 * Names and stacks may contain any bytes. Invalid UTF-8 becomes U+FFFD, and markup in them has no
 * effect.
 * @throws std::invalid_argument if an index is out of range, if a time is not finite or descends,
 *         or if the number of runs is not 1 or 2
 * @throws UsageError like `require_page`
 */
void write_page(const PageData& data, std::ostream& out);

/** @brief Call it before the work begins. @throws UsageError if this program was built without
 *         esbuild, which bundles the page's viewer */
void require_page();

}  // namespace millrace::cli
