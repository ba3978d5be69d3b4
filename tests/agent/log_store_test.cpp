#include <gpuactors/agent/log_store.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace fs = std::filesystem;

namespace {

using Texts = std::vector<std::string>;

Texts texts_of(const std::vector<LogLine>& lines) {
  Texts texts;
  for (const auto& line : lines)
    texts.push_back(line.text);
  return texts;
}

struct LogFixture {
  TemporaryFolder temporary;
  fs::path folder = temporary / "logs";
  Texts warnings;
  int clock = 0;
  std::unique_ptr<LogStore> log;

  /// A file takes ten lines of 60 bytes with their end, if they are written by `write`.
  void open(std::uint64_t file_bytes = 600, std::size_t files = 3, std::size_t follow_lines = 5) {
    log.reset();
    auto store = LogStore::open(
        {folder, file_bytes, files, follow_lines, [this](const std::string& text) { warnings.push_back(text); }});
    INFO((store ? "" : to_string(store.error())));
    REQUIRE(store.has_value());
    log = std::move(*store);
  }

  void write(const std::string& text, const std::string& source = "w1", const std::string& node = "node1") {
    log->append({LogTime{} + std::chrono::seconds{++clock}, node, source, OutputStream::out, text});
  }

  /// Lines `from` to `to`, with 15 digits.
  void write_numbers(int from, int to) {
    for (int i = from; i <= to; ++i)
      write(fmt::format("{:015}", i));
  }

  Texts tail(std::size_t count, const LogFilter& filter = {}) const {
    const auto lines = log->tail(filter, count);
    REQUIRE(lines.has_value());
    return texts_of(*lines);
  }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator{folder})
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}

/// What a follower got, for tests that wait for it.
class Heard {
public:
  LogStore::Callback callback() {
    return [this](const std::vector<LogLine>& lines, std::uint64_t dropped) {
      const std::lock_guard guard{mutex_};
      for (const auto& line : lines)
        texts_.push_back(line.text);
      dropped_ += dropped;
      changed_.notify_all();
    };
  }

  Texts wait(std::size_t count) {
    std::unique_lock lock{mutex_};
    CHECK(changed_.wait_for(lock, std::chrono::minutes{1}, [&] { return texts_.size() + dropped_ >= count; }));
    return texts_;
  }

  std::uint64_t dropped() {
    const std::lock_guard guard{mutex_};
    return dropped_;
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Texts texts_;
  std::uint64_t dropped_ = 0;
};

} // namespace

// -- keeping --------------------------------------------------------------------------------------

TEST_CASE_METHOD(LogFixture, "a log is plain text, and is there again after a restart") {
  open();
  write("one");
  write("two\nthree\n", "w2");
  write("");
  open();
  write("four");
  CHECK(files() == Texts{"output-0000000001.log"});
  CHECK(text_of(folder / "output-0000000001.log")
        == "1970-01-01T00:00:01.000000Z\tnode1\tw1\tstdout\tone\n"
           "1970-01-01T00:00:02.000000Z\tnode1\tw2\tstdout\ttwo\n"
           "1970-01-01T00:00:02.000000Z\tnode1\tw2\tstdout\tthree\n"
           "1970-01-01T00:00:03.000000Z\tnode1\tw1\tstdout\t\n"
           "1970-01-01T00:00:04.000000Z\tnode1\tw1\tstdout\tfour\n");
  CHECK(tail(100) == Texts{"one", "two", "three", "", "four"});
  CHECK((fs::status(folder).permissions() & fs::perms{077}) == fs::perms::none);
  CHECK(warnings.empty());
}

TEST_CASE_METHOD(LogFixture, "files are of bounded size and number, and the last lines stay") {
  open();
  write_numbers(1, 10);
  CHECK(fs::file_size(folder / "output-0000000001.log") == 600);
  CHECK(files().size() == 1);
  write_numbers(11, 35);
  CHECK(files() == Texts{"output-0000000002.log", "output-0000000003.log", "output-0000000004.log"});
  CHECK(tail(1000).size() == 25);
  CHECK(tail(1000).front() == "000000000000011");
  CHECK(tail(6).front() == "000000000000030");
  open(600, 2);
  CHECK(files() == Texts{"output-0000000003.log", "output-0000000004.log"});
  // A line longer than a file is not refused.
  write(std::string(1000, 'x'));
  CHECK(files() == Texts{"output-0000000004.log", "output-0000000005.log"});
  CHECK(tail(1) == Texts{std::string(1000, 'x')});
}

TEST_CASE_METHOD(LogFixture, "the end of a log is that of the sources that are asked for") {
  open();
  for (int i = 1; i <= 3; ++i)
    for (const auto* source : {"w1", "w2", "w3"})
      write(fmt::format("{} {}", source, i), source, i == 3 ? "node2" : "node1");
  CHECK(tail(2, {"", {"w2"}}) == Texts{"w2 2", "w2 3"});
  CHECK(tail(3, {"", {"w2", "w3"}}) == Texts{"w3 2", "w2 3", "w3 3"});
  CHECK(tail(9, {"node2", {}}) == Texts{"w1 3", "w2 3", "w3 3"});
  CHECK(tail(9, {"node2", {"w1"}}) == Texts{"w1 3"});
  CHECK(tail(9, {"", {"w"}}).empty());
  CHECK(tail(0).empty());
  CHECK(log->tail({}, limits::log_tail_lines).has_value());
  const auto many = log->tail({}, limits::log_tail_lines + 1);
  REQUIRE_FALSE(many.has_value());
  CHECK(many.error() == Error{Errc::invalid_argument, "10001 lines of a log are too many at once: 10000 at most"});
}

TEST_CASE_METHOD(LogFixture, "half a line, left by a process that was killed, spoils no other") {
  open();
  write("one");
  log.reset();
  std::ofstream{folder / "output-0000000001.log", std::ios::app} << "1970-01-01T00:00:02.0000";
  std::ofstream{folder / "output-notes.log"} << "not ours\n";
  open();
  write("two");
  CHECK(tail(9) == Texts{"one", "two"});
}

TEST_CASE_METHOD(LogFixture, "a line that ends within a character is read as text") {
  open();
  write("one");
  log.reset();
  std::ofstream{folder / "output-0000000001.log", std::ios::app}
      << "1970-01-01T00:00:02.000000Z\tn\ts\tstdout\thalf \xC3";
  open();
  write("two");
  CHECK(tail(9) == Texts{"one", "half \xEF\xBF\xBD", "two"});
}

// -- trouble --------------------------------------------------------------------------------------

TEST_CASE_METHOD(LogFixture, "a removed folder is made again, with one warning") {
  open();
  write("one");
  fs::remove_all(folder);
  write("two");
  write("three");
  CHECK(tail(9) == Texts{"two", "three"});
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("output-0000000001.log was removed, with what was in it; a new one is begun"));
}

TEST_CASE_METHOD(LogFixture, "a folder that cannot be made again costs lines until it can, and one warning") {
  open();
  write("one");
  fs::remove_all(folder);
  std::ofstream{folder} << "in the way";
  write("two");
  write("three\nfour");
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], StartsWith("what workers write is lost until that changes: "));
  CHECK_THAT(warnings[0], Contains("Not a directory"));
  CHECK(tail(9).empty());
  fs::remove(folder);
  write("five");
  const auto texts = tail(9);
  REQUIRE(texts.size() == 2);
  CHECK_THAT(texts[0], StartsWith("3 lines are missing: "));
  CHECK(texts[1] == "five");
  fs::remove_all(folder);
  std::ofstream{folder} << "in the way again";
  write("six");
  CHECK(warnings.size() == 2);
}

TEST_CASE_METHOD(LogFixture, "a disk without room costs whole lines, and one warning") {
  open(100'000);
  write_numbers(1, 10);
  // A limit of the process stands in for the end of the disk: here, too, a part of a line can be written.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN); // NOLINT(cert-err33-c)
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{630, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  write_numbers(11, 13);
  const auto size = fs::file_size(folder / "output-0000000001.log");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler); // NOLINT(cert-err33-c)
  CHECK(size == 600);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("File too large"));
  write("after");
  const auto texts = tail(3);
  REQUIRE(texts.size() == 3);
  CHECK(texts[0] == "000000000000010");
  CHECK_THAT(texts[1], StartsWith("3 lines are missing: "));
  CHECK(texts[2] == "after");
  CHECK(warnings.size() == 1);
}

TEST_CASE_METHOD(LogFixture, "a folder belongs to one log at a time") {
  open();
  const auto second = LogStore::open({folder});
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code() == Errc::already_exists);
  CHECK_THAT(second.error().message(), Contains("is the log of another node that runs here"));
  log.reset();
  CHECK(LogStore::open({folder}).has_value());
}

TEST_CASE_METHOD(LogFixture, "a folder of somebody else, or a file there, is not written to") {
  const auto why_not = [&] {
    const auto store = LogStore::open({folder, 600, 3, 5, {}});
    return store ? std::string{} : store.error().message();
  };
  open();
  write("line");
  log.reset();
  const auto file = folder / "output-0000000001.log";
  const auto aside = temporary / "aside";
  fs::rename(file, aside);
  fs::create_symlink(aside, file);
  CHECK_THAT(why_not(), Contains("output-0000000001.log cannot be written"));
  CHECK(fs::file_size(aside) > 0);
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK_THAT(why_not(), Contains("output-0000000001.log is no file of user") && Contains("remove it"));
  fs::remove(file);
  if (::geteuid() != 0)
    return; // only root gives files away
  fs::rename(aside, file);
  REQUIRE(::chown(file.c_str(), 1234, 1234) == 0);
  CHECK_THAT(why_not(), Contains("output-0000000001.log is no file of user 0"));
  REQUIRE(::chown(file.c_str(), 0, 0) == 0);
  REQUIRE(::chown(folder.c_str(), 1234, 1234) == 0);
  CHECK_THAT(why_not(), Contains("belongs to user 1234") && Contains("runs as user 0: chown 0 " + folder.string()));
  REQUIRE(::chown(folder.c_str(), 0, 1234) == 0);
  CHECK(why_not().empty());
}

TEST_CASE_METHOD(LogFixture, "a log that holds nothing, or has no place, is refused") {
  CHECK(LogStore::open({folder, 0, 1, 1, {}}).error().code() == Errc::invalid_argument);
  CHECK(LogStore::open({folder, 1, 0, 1, {}}).error().code() == Errc::invalid_argument);
  CHECK(LogStore::open({folder, 1, 1, 0, {}}).error().code() == Errc::invalid_argument);
  std::ofstream{folder} << "in the way";
  CHECK_THAT(LogStore::open({folder}).error().message(), Contains("Not a directory"));
}

// -- following ------------------------------------------------------------------------------------

TEST_CASE_METHOD(LogFixture, "a follower gets the last lines and then each new one, in their order") {
  open(600, 3, 1000);
  write_numbers(1, 25);
  write("other", "w2");
  Heard heard;
  const auto following = log->follow({"", {"w1"}}, 3, heard.callback());
  REQUIRE(following.has_value());
  write("next");
  write("other", "w2");
  write("last");
  CHECK(heard.wait(5) == Texts{"000000000000023", "000000000000024", "000000000000025", "next", "last"});
  CHECK(heard.dropped() == 0);
}

TEST_CASE_METHOD(LogFixture, "nothing is missed and nothing told twice, while others write") {
  open(100'000, 50, 100'000);
  std::promise<void> some;
  std::thread writer{[&] {
    for (int i = 1; i <= 20'000; ++i) {
      write(fmt::format("{}", i));
      if (i == 5'000)
        some.set_value();
    }
  }};
  some.get_future().wait();
  Heard heard;
  const auto following = log->follow({}, 10'000, heard.callback());
  writer.join();
  write("end");
  REQUIRE(following.has_value());
  Texts texts = heard.wait(1);
  for (std::size_t count = 1; texts.back() != "end"; texts = heard.wait(++count))
    continue;
  texts.pop_back();
  const auto first = std::stoi(texts.front());
  CHECK(first <= 5'000);
  bool in_order = true;
  for (std::size_t i = 0; i < texts.size(); ++i)
    in_order = in_order && std::stoi(texts[i]) == first + static_cast<int>(i);
  CHECK(in_order);
  CHECK(texts.size() == static_cast<std::size_t>(20'000 - first + 1));
}

TEST_CASE_METHOD(LogFixture, "a follower that is too slow is told how many lines it missed") {
  open(); // 5 lines may wait
  std::promise<void> entered;
  std::promise<void> go_on;
  Heard heard;
  bool first = true;
  const auto following = log->follow({}, 0, [&](const std::vector<LogLine>& lines, std::uint64_t dropped) {
    if (std::exchange(first, false)) {
      entered.set_value();
      go_on.get_future().wait();
    }
    heard.callback()(lines, dropped);
  });
  write("1");
  entered.get_future().wait();
  for (int i = 2; i <= 20; ++i)
    write(fmt::format("{}", i));
  go_on.set_value();
  CHECK(heard.wait(20) == Texts{"1", "2", "3", "4", "5", "6"});
  CHECK(heard.dropped() == 14);
  write("21");
  CHECK(heard.wait(21).back() == "21");
  CHECK(heard.dropped() == 14);
}

TEST_CASE_METHOD(LogFixture, "a following that was stopped is silent, and one may stop itself") {
  open();
  Heard silent;
  auto stopped = log->follow({}, 0, silent.callback());
  write("one");
  silent.wait(1);
  stopped->stop();
  std::promise<void> once;
  LogFollowing self;
  self = std::move(*log->follow({}, 0, [&](const std::vector<LogLine>&, std::uint64_t) {
    self.stop();
    once.set_value(); // throws when it is called again
  }));
  Heard heard;
  auto other = log->follow({}, 0, heard.callback());
  write("two");
  once.get_future().wait();
  write("three");
  CHECK(heard.wait(2) == Texts{"two", "three"});
  CHECK(silent.wait(1) == Texts{"one"});
  log.reset();
  other->stop();
}
