// What is quoted of the lines that a worker's process wrote at last.
#include <gpuactors/agent/last_lines.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

TEST_CASE("an end quotes the holder's own last line, and its process's unless another holder wrote that") {
  LastLines lines;
  CHECK(lines.words().empty());
  CHECK(lines.words_for(LeaseId{1}, false).empty());
  lines.add(LeaseId{1}, "step 1");
  lines.add(LeaseId{1}, "step 2");
  lines.add(LeaseId{2}, "fine");
  lines.add(LeaseId{1}, "");
  CHECK(lines.words() == "; its last line was \"fine\"");
  CHECK(lines.words_for(LeaseId{1}, false) == "; its last line was \"step 2\"");
  CHECK(lines.words_for(LeaseId{2}, false) == "; its last line was \"fine\"");
  CHECK(lines.words_for(LeaseId{3}, false).empty());
  // What ends a process does not say for whom it did so.
  lines.add(LeaseId{}, "terminate called");
  CHECK(lines.words() == "; its last line was \"terminate called\"");
  CHECK(lines.words_for(LeaseId{1}, false)
        == "; its last line was \"step 2\", and that of its process \"terminate called\"");
  CHECK(lines.words_for(LeaseId{3}, false) == "; the last line of its process was \"terminate called\"");
  CHECK(lines.words_for(LeaseId{1}, true) == "; its last line was \"terminate called\"");
  lines.add(LeaseId{2}, "good bye");
  CHECK(lines.words_for(LeaseId{1}, true) == "; its last line was \"step 2\"");
  CHECK(lines.words_for(LeaseId{3}, true).empty());
}

TEST_CASE("last lines arrive in their message as they were written") {
  LastLines lines;
  lines.add(LeaseId{9}, "old");
  lines.add(LeaseId{}, "of nobody");
  lines.add(LeaseId{7}, "new");
  v1::WorkerExited message;
  lines.write_to(message);
  const auto arrived = LastLines::from(message);
  CHECK(arrived.words() == "; its last line was \"new\"");
  for (const std::uint64_t holder : {7, 8, 9})
    CHECK(arrived.words_for(LeaseId{holder}, false) == lines.words_for(LeaseId{holder}, false));
  CHECK(LastLines::from(v1::WorkerExited{}).words().empty());
}

TEST_CASE("of any number of holders, the last lines of those who wrote last are kept") {
  LastLines lines;
  for (std::uint64_t holder = 1; holder <= 1'000; ++holder) {
    lines.add(LeaseId{1}, "still here");
    lines.add(LeaseId{holder + 1}, "one of many");
  }
  v1::WorkerExited message;
  lines.write_to(message);
  CHECK(message.last_lines_size() == 256);
  CHECK(lines.words_for(LeaseId{1}, false) == "; its last line was \"still here\"");
  CHECK(lines.words_for(LeaseId{2}, false).empty());
  CHECK(lines.words_for(LeaseId{1'001}, false) == "; its last line was \"one of many\"");
}
