#define CATCH_CONFIG_RUNNER
#include <cstdlib>
#include <iostream>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#ifndef CATCH_VERSION_MAJOR
#error "test/support/catch.hpp must give the version of Catch2"
#endif

namespace {

// Catch2's own exit code may be the number of failures, which could be mistaken for "skipped".
constexpr int kFailed = 1;
constexpr int kSkipped = 4;  // as in test/CMakeLists.txt, SKIP_RETURN_CODE

Catch::Counts cases;
std::uint64_t skipped_cases = 0;

#if CATCH_VERSION_MAJOR == 2
bool skipping = false;
using ListenerBase = Catch::TestEventListenerBase;
#else
using ListenerBase = Catch::EventListenerBase;
#endif

struct CaseCounter : ListenerBase {
  using ListenerBase::ListenerBase;

#if CATCH_VERSION_MAJOR == 2
  void testCaseStarting(const Catch::TestCaseInfo&) override { skipping = false; }
  void testCaseEnded(const Catch::TestCaseStats&) override { skipped_cases += skipping ? 1 : 0; }
  void testRunEnded(const Catch::TestRunStats& run) override { cases = run.totals.testCases; }
#else
  void testRunEnded(const Catch::TestRunStats& run) override {
    cases = run.totals.testCases;
    skipped_cases = cases.skipped;
  }
#endif
};
CATCH_REGISTER_LISTENER(CaseCounter)

void warn_about(Catch::ConfigData& config, Catch::WarnAbout::What what) {
  config.warnings = static_cast<Catch::WarnAbout::What>(config.warnings | what);
}

}  // namespace

#if CATCH_VERSION_MAJOR == 2
namespace millrace::test {

void skip(const std::string& reason) {
  skipping = true;
  std::cout << "skipped: " << reason << std::endl;
  SUCCEED(reason);
  throw Catch::TestFailureException{};  // only unwinds: no assertion has failed
}

}  // namespace millrace::test
#endif

int main(int argc, char** argv) {
  const std::uint64_t seed = millrace::test::seed();
  std::string properties = "seed=" + std::to_string(seed);
  if (const char* const programs = std::getenv("MILLRACE_PROGRAMS")) {
    properties += std::string{" max_success="} + programs;
  }
  setenv("RC_PARAMS", properties.c_str(), 0);

  Catch::Session session;
  if (const int rejected = session.applyCommandLine(argc, argv); rejected != 0) return rejected;
  warn_about(session.configData(), Catch::WarnAbout::NoAssertions);
#if CATCH_VERSION_MAJOR == 2
  warn_about(session.configData(), Catch::WarnAbout::NoTests);
#endif

  const int code = session.run();
  if (skipped_cases > 0) {  // version 2 has reported that all passed
    std::cout << skipped_cases << " of " << cases.total() << " test cases were SKIPPED, not run\n";
  }
  if (cases.failed > 0) {
    std::cerr << "repeat with MILLRACE_SEED=" << seed << '\n';
    return kFailed;
  }
  return cases.total() > 0 && skipped_cases == cases.total() ? kSkipped : code;
}
