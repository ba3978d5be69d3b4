// The table of gpu_verify: which row takes the place of which, and what has run.
#include <support/catch.hpp>

#include <gpu/report.hpp>

#include <string>
#include <vector>

using namespace gpuactors::gpu;

namespace {

std::vector<std::string> texts_of(const Report& report) {
  std::vector<std::string> texts;
  const auto table = report.to_json();
  for (const auto& row : table.at("rows"))
    texts.push_back(row.at("text"));
  return texts;
}

} // namespace

TEST_CASE("a row takes the place of that of the same measurement, and of no other one's") {
  Report report{true};
  report.begin("events");
  report.judge("events", true, "of streams", "target");
  report.begin("faults");
  report.state("events", "of the management library");
  CHECK(texts_of(report) == std::vector<std::string>{"of streams", "of the management library"});
  CHECK(report.settled() == std::set<std::string>{"events", "faults"});
  report.state("events", "again");
  CHECK(texts_of(report) == std::vector<std::string>{"of streams", "again"});
  report.begin("events");
  CHECK(texts_of(report) == std::vector<std::string>{"again"});
}

TEST_CASE("a measurement with an open row has not run") {
  Report report{true};
  report.state("tour", "done");
  report.leave_open("conformance", "no time left");
  CHECK(report.settled() == std::set<std::string>{"tour"});
  report.state("conformance", "done");
  CHECK(report.settled() == std::set<std::string>{"conformance", "tour"});
}

TEST_CASE("targets are stated where nothing is judged, and failures stay failures") {
  Report report{false};
  report.judge("slow", false, "too slow", "at most 1 s");
  report.fail("broken", "no result");
  CHECK(report.count(Verdict::info) == 1);
  CHECK(report.count(Verdict::fail) == 1);
}

TEST_CASE("what ran on another GPU or with another build has not run") {
  Report report{true};
  report.about() = {{"uuid", "GPU-1"}, {"revision", "one"}};
  report.judge("tour", true, "done", "target");
  CHECK(report.settled() == std::set<std::string>{"tour"});
  for (const auto& about : {nlohmann::json{{"uuid", "GPU-2"}, {"revision", "one"}},
                            nlohmann::json{{"uuid", "GPU-1"}, {"revision", "two"}}}) {
    report.about() = about;
    CHECK(report.settled().empty());
    CHECK(report.count_others() == 1);
  }
  report.judge("tour", true, "again", "target");
  CHECK(report.settled() == std::set<std::string>{"tour"});
  CHECK(report.count_others() == 0);
}
