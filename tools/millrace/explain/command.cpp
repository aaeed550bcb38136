#include "cli/command.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/fitted.hpp"
#include "cli/progress.hpp"
#include "cli/results.hpp"
#include "cli/values.hpp"
#include "commands.hpp"
#include "explain/explained.hpp"
#include "explain/json.hpp"
#include "explain/page.hpp"
#include "explain/text.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "page/output.hpp"

namespace millrace::cli {
namespace {

struct ExplainArguments {
  std::string file;
  std::string against;
  std::string replays = "limited";
  bool wide = false;
  std::optional<std::string> html;
  ResultArguments results;
};

Replays read_replays(const std::string& text) {
  const std::string name = read_name("--replay", "choice", text, {"limited", "all", "none"});
  if (name == "all") return Replays::all;
  return name == "none" ? Replays::none : Replays::limited;
}

void run_explain_command(const ExplainArguments& arguments) {
  const Replays replays = read_replays(arguments.replays);
  const Results results{arguments.results};
  std::optional<PageOutput> page;
  if (arguments.html) page.emplace(*arguments.html);
  Progress progress{"explain", arguments.against.empty() ? std::size_t{1} : std::size_t{2}};
  const ExplainedFile first = explain_file(arguments.file, replays);
  progress.advance(arguments.file);
  const ExplainText options{.wide = arguments.wide};
  if (arguments.against.empty()) {
    if (page) page->write(page_data_of(first, nullptr));
    results.write([&](const Painter& paint) { return render(first, options, paint); },
                  [&] { return to_document(first, nullptr, {}); });
    return;
  }
  const ExplainedFile second = explain_file(arguments.against, replays);
  progress.advance(arguments.against);
  if (page) page->write(page_data_of(first, &second));
  // The user looks at FILE. The comparison with FILE2 shows what grew since then.
  const auto changes = difference(second.explanation, first.explanation);
  results.write(
      [&](const Painter& paint) {
        return render(first, options, paint) + '\n' +
               render(second, first, changes, options, paint);
      },
      [&] { return to_document(first, &second, changes); });
}

}  // namespace

void add_explain(CLI::App& program) {
  Command command{program, "explain",
                  "Explains where the memory of a recorded program is at its peak, why the rest of "
                  "it could not be used, and which change saves most"};
  const auto given = std::make_shared<ExplainArguments>();
  command.input("FILE", given->file, "", "Explain this trace: " + trace::trace_formats())
      .required();
  command.input("--against", given->against, "FILE",
                "Show what grew since this earlier trace, by stream, site and cause");
  command.add("--replay", given->replays, "KIND",
              "Replay the requests on other allocators: limited (default; no replays if the log is "
              "too long), all, none");
  command.flag("--wide", given->wide, "Show every row, in the width of the terminal");
  add_page_option(command, given->html);
  add_result_options(command, given->results);
  command.examples(
      {{"millrace explain snapshot.pickle", "Explains the peak of a memory snapshot of PyTorch."},
       {"millrace explain --against before.pickle after.pickle",
        "Explains a snapshot, and what grew since an earlier one."}});
  command.run([given] { run_explain_command(*given); });
}

}  // namespace millrace::cli
