#include <gpuactors/agent/worker_output.hpp>
#include <gpuactors/base/descriptor.hpp>
#include <gpuactors/base/limits.hpp>
#include <gpuactors/base/output_holder.hpp>

#include <support/catch.hpp>

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

using namespace gpuactors;
using Catch::Matchers::EndsWith;

namespace {

using Lines = std::vector<std::string>;

/// A stream that is marked, into a pipe.
struct MarkedStream {
  detail::Descriptor in;
  detail::Descriptor out;
  std::unique_ptr<MarkedBuffer> buffer;
  std::unique_ptr<std::ostream> stream;

  MarkedStream() {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0);
    in = detail::Descriptor{ends[0]};
    out = detail::Descriptor{ends[1]};
    buffer = std::make_unique<MarkedBuffer>(out.get());
    stream = std::make_unique<std::ostream>(buffer.get());
  }

  /// What was written so far, "HOLDER: TEXT" a line.
  Lines lines() {
    std::string text(1U << 20, '\0');
    const auto count = ::read(in.get(), text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    Lines result;
    for (std::size_t begin = 0; begin < text.size();) {
      const auto end = text.find('\n', begin);
      REQUIRE(end != std::string::npos);
      const auto line = split_mark(std::string_view{text}.substr(begin, end - begin));
      result.push_back(fmt::format("{}: {}", line.holder.value(), line.text));
      begin = end + 1;
    }
    return result;
  }
};

/// Runs `work` on a thread of its own.
template <class Work>
void on_thread(Work work) {
  std::thread{std::move(work)}.join();
}

} // namespace

TEST_CASE("a line carries the holder of the thread that wrote it") {
  MarkedStream marked;
  on_thread([&] {
    *marked.stream << "before\n";
    set_output_holder(LeaseId{7});
    *marked.stream << "mine " << 1 << std::endl;
    on_thread([&] { *marked.stream << "of a thread of its own\n"; });
    *marked.stream << "mine " << 2 << "\n\n";
    set_output_holder(LeaseId{});
    *marked.stream << "after\n";
  });
  CHECK(marked.lines() == Lines{"0: before", "7: mine 1", "0: of a thread of its own", "7: mine 2", "7: ", "0: after"});
}

TEST_CASE("threads that write at once do not mix their lines") {
  MarkedStream marked;
  std::vector<std::thread> threads;
  constexpr int lines_each = 100;
  for (std::uint64_t holder = 1; holder <= 4; ++holder)
    threads.emplace_back([&marked, holder] {
      set_output_holder(LeaseId{holder});
      for (int i = 0; i < lines_each; ++i)
        *marked.stream << holder << " says " << std::flush << i << '\n';
    });
  for (auto& thread : threads)
    thread.join();
  auto lines = marked.lines();
  Lines expected;
  for (int holder = 1; holder <= 4; ++holder)
    for (int i = 0; i < lines_each; ++i)
      expected.push_back(fmt::format("{0}: {0} says {1}", holder, i));
  std::sort(lines.begin(), lines.end());
  std::sort(expected.begin(), expected.end());
  CHECK(lines == expected);
}

TEST_CASE("half a line is written when its thread ends or works for another holder") {
  MarkedStream marked;
  on_thread([&] {
    set_output_holder(LeaseId{1});
    *marked.stream << "not ended" << std::flush;
    CHECK(marked.lines().empty());
    set_output_holder(LeaseId{2});
    *marked.stream << "nor this";
    CHECK(marked.lines() == Lines{"1: not ended"});
  });
  CHECK(marked.lines() == Lines{"2: nor this"});
}

TEST_CASE("a line without end is cut so that its mark stays") {
  MarkedStream marked;
  on_thread([&] {
    set_output_holder(LeaseId{UINT64_MAX});
    for (int i = 0; i < 3; ++i)
      *marked.stream << std::string(10'000, 'x');
    *marked.stream << '\n';
  });
  const auto lines = marked.lines();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].size() < limits::log_line_bytes);
  CHECK(lines[0].substr(0, 30) == "18446744073709551615: xxxxxxxx");
  CHECK_THAT(lines[0], EndsWith(" more bytes]"));
}

TEST_CASE("a written mark does not stand for another holder") {
  MarkedStream marked;
  on_thread([&] {
    *marked.stream << "\x1E"
                      "7\x1E"
                      "forged\n";
    set_output_holder(LeaseId{3});
    *marked.stream << "\x1E"
                      "7\x1E"
                      "forged\n";
  });
  CHECK(marked.lines()
        == Lines{"0: \x1E"
                 "7\x1E"
                 "forged",
                 "3: \x1E"
                 "7\x1E"
                 "forged"});
}

TEST_CASE("what is no mark is text") {
  for (const std::string text : {"", "plain", "\x1E", "\x1E\x1E",
                                 "\x1E"
                                 "7",
                                 "\x1E"
                                 "7 ",
                                 "\x1E-7\x1E", "\x1Ex\x1E",
                                 "\x1E"
                                 "99999999999999999999\x1E"}) {
    CHECK_FALSE(split_mark(text).holder);
    CHECK(split_mark(text).text == text);
  }
}
