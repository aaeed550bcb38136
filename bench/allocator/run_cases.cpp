#include "allocator/run_cases.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <malloc.h>

#include <deque>
#include <exception>
#include <set>
#include <string>

namespace millrace::bench {
namespace {

/// Suppresses Google Benchmark's output, because the program prints its own lines.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

std::string title(const Case& of, const SubjectRow& row) {
  return fmt::format("{}/{}/{}", of.suite, of.name, row.name);
}

Setting setting_of(const Case& of, const Setting& setting, std::size_t repetition) {
  Setting result = setting;
  result.seed += repetition;
  if (of.limit_seconds > 0 && setting.scale.name == "default") {
    result.scale.limit_ns = of.limit_seconds * 1e9;
  }
  return result;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  void run(const Case& of) {
    if (of.live > options_.setting.scale.most_live) {
      results_.left_out.push_back(
          {of.suite, of.name, "too large for the scale " + options_.setting.scale.name});
      return;
    }
    std::deque<ResultRow> rows;
    for (const SubjectRow& subject : subjects()) {
      if (wanted(of, subject)) register_run(of, subject, rows.emplace_back());
    }
    if (rows.empty()) return;
    benchmark::RunSpecifiedBenchmarks(&silent_, ".");
    benchmark::ClearRegisteredBenchmarks();
    malloc_trim(0);  // so that memory left by this case does not slow the next one
    for (ResultRow& row : rows) {
      print(row);
      results_.rows.push_back(std::move(row));
    }
  }

  [[nodiscard]] Results finish() && { return std::move(results_); }

 private:
  bool wanted(const Case& of, const SubjectRow& subject) {
    if (subject.make == nullptr || (subject.only_gpu && !options_.setting.gpu)) {
      const std::string why{subject.make == nullptr ? subject.left_out : "only on a GPU"};
      leave_out("", std::string{subject.name}, why);
      return false;
    }
    if (of.subjects == Case::For::millrace && !subject.millrace) {
      leave_out(of.suite + "/" + of.name, "other subjects", "a call that only Millrace has");
      return false;
    }
    if (of.subjects == Case::For::threads && !subject.threads) {
      leave_out(of.suite, std::string{subject.name}, "threads may not share it");
      return false;
    }
    if (of.needs_idle_control && options_.setting.gpu) {
      leave_out(of.suite, of.name, "a GPU decides itself when its work is done");
      return false;
    }
    return !options_.filter || std::regex_search(title(of, subject), *options_.filter);
  }

  void leave_out(const std::string& suite, const std::string& name, const std::string& why) {
    if (told_.insert(suite + "/" + name).second) results_.left_out.push_back({suite, name, why});
  }

  void register_run(const Case& of, const SubjectRow& subject, ResultRow& row) {
    row.of = &of;
    row.subject = subject.name;
    benchmark::RegisterBenchmark(title(of, subject).c_str(),
                                 [&, this](benchmark::State& state) {
                                   for (auto _ : state)
                                     state.SetIterationTime(repeat(of, subject, row) * 1e-9);
                                 })
        ->Iterations(1)
        ->UseManualTime()
        ->Repetitions(static_cast<int>(of.once ? 1 : options_.setting.scale.repetitions));
  }

  double repeat(const Case& of, const SubjectRow& subject, ResultRow& row) {
    const Setting setting = setting_of(of, options_.setting, row.repetitions.size());
    if (!given_up(row).empty()) return 0;  // it would take too long again
    if (!row.repetitions.empty() && row.repetitions.back().cpu_ns > setting.scale.limit_ns) {
      return 0;  // one step took that long
    }
    try {
      row.repetitions.push_back(of.run(subject, setting));
    } catch (const std::exception& error) {
      fmt::print(stderr, "bench_allocator: {}: {}\n", title(of, subject), error.what());
      results_.failed = true;
      row.repetitions.emplace_back().given_up = std::string{"failed: "} + error.what();
    }
    return row.repetitions.back().cpu_ns;
  }

  static void print(const ResultRow& row) {
    const std::string name = fmt::format("{}/{}/{}", row.of->suite, row.of->name, row.subject);
    const std::string why = given_up(row);
    if (const auto ns = ns_per_pair(row)) {
      fmt::print("{:<64}{:>14.1f} ns/{}{}\n", name, *ns, row.of->unit,
                 why.empty() ? "" : " (given up: " + why + ")");
    } else {
      fmt::print("{:<64}{:>14} {}, {} reached\n", name, "given up:", why,
                 row.repetitions.back().reached);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  Silent silent_;
  Results results_;
  std::set<std::string> told_;
};

}  // namespace

Results run_cases(const Cases& cases, const Options& options) {
  Runner runner{options};
  for (const Case& of : cases.all) runner.run(of);
  Results results = std::move(runner).finish();
  results.left_out.insert(results.left_out.end(), cases.left_out.begin(), cases.left_out.end());
  return results;
}

}  // namespace millrace::bench
