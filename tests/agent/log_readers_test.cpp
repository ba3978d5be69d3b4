#include <gpuactors/agent/log_readers.hpp>

#include <support/catch.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>

#include <future>

using namespace gpuactors;
using namespace gpuactors::test;
using namespace std::chrono_literals;

namespace {

using Texts = std::vector<std::string>;

struct ReadersFixture {
  TemporaryFolder temporary;
  std::unique_ptr<LogStore> store;
  std::shared_ptr<LogSources> sources = std::make_shared<LogSources>();
  std::unique_ptr<LogReaders> readers;
  int clock = 0;

  ReadersFixture() {
    LogOptions options;
    options.folder = temporary / "logs";
    auto opened = LogStore::open(std::move(options));
    REQUIRE(opened.has_value());
    store = std::move(*opened);
    start({});
  }

  void start(LogReaderBounds bounds) {
    readers.reset();
    auto made = LogReaders::make(*store, sources, bounds);
    REQUIRE(made.has_value());
    readers = std::move(*made);
  }

  void write(const std::string& text, const std::string& source = "actor 1 a") {
    store->append({LogTime{} + std::chrono::seconds{++clock}, "n0", source, OutputStream::out, text});
  }

  std::future<Result<LogAnswer>> ask(const LogQuery& query) {
    auto promise = std::make_shared<std::promise<Result<LogAnswer>>>();
    readers->read(query, [promise](Result<LogAnswer> answer) { promise->set_value(std::move(answer)); });
    return promise->get_future();
  }

  LogAnswer answer(const LogQuery& query) {
    auto result = ask(query).get();
    REQUIRE(result.has_value());
    return std::move(*result);
  }

  Texts texts(const LogQuery& query) {
    Texts result;
    for (const auto& line : answer(query).lines)
      result.push_back(line.text);
    return result;
  }
};

} // namespace

TEST_CASE_METHOD(ReadersFixture, "a reader gets the last lines, in as many answers as it takes, and then the end") {
  start({.answer_bytes = 20});
  for (int i = 0; i < 4; ++i)
    write(fmt::format("line {}", i));
  const LogQuery query{.reader = 1, .count = 3};
  CHECK(texts(query) == Texts{"line 1"});
  write("later");
  CHECK(texts(query) == Texts{"line 2"});
  CHECK(texts(query) == Texts{"line 3"});
  CHECK(texts(query).empty());
  // It is forgotten then: the same number is a new reader.
  CHECK(texts(query) == Texts{"line 2"});
}

TEST_CASE_METHOD(ReadersFixture, "who follows gets what is there, and then each line as soon as it comes") {
  write("old");
  write("there");
  const LogQuery query{.reader = 1, .count = 1, .follow = true, .wait = 20s};
  CHECK(texts(query) == Texts{"there"});
  auto next = ask(query);
  write("new");
  CHECK(next.get()->lines.at(0).text == "new");
}

TEST_CASE_METHOD(ReadersFixture, "of long lines as many wait for a reader as there are bytes for") {
  constexpr auto most = limits::log_reader_bytes / limits::log_line_bytes;
  for (std::size_t i = 0; i < most + 100; ++i)
    write(std::string(limits::log_line_bytes, static_cast<char>('a' + i % 26)));
  LogQuery query;
  query.reader = 1;
  query.count = limits::log_tail_lines;
  std::size_t bytes = 0;
  LogAnswer last;
  for (auto next = answer(query); !next.lines.empty(); next = answer(query)) {
    for (const auto& line : next.lines)
      bytes += line.text.size();
    last = std::move(next);
  }
  CHECK(bytes <= limits::log_reader_bytes);
  CHECK(bytes > limits::log_reader_bytes / 2);
  // The newest are kept.
  CHECK(last.lines.back().text.front() == static_cast<char>('a' + (most + 99) % 26));
}

TEST_CASE_METHOD(ReadersFixture, "an answer without lines comes when the time is over") {
  const auto begin = Clock::now();
  CHECK(texts({.reader = 1, .follow = true, .wait = 30ms}).empty());
  CHECK(Clock::now() - begin >= 30ms);
  // Not later than the node likes to wait, which is far away: asking again answers the question before.
  auto first = ask({.reader = 1, .follow = true, .wait = std::chrono::hours{24 * 365 * 200}});
  auto second = ask({.reader = 1, .follow = true, .wait = 20s});
  CHECK(first.get()->lines.empty());
  write("line");
  CHECK(second.get()->lines.size() == 1);
}

TEST_CASE_METHOD(ReadersFixture, "a reader of an actor gets its lines and those of its workers that name nobody") {
  sources->add_holder(3, LeaseId{5}, {LogSource::Kind::actor, 1, "a"}, LogTime{} + 2s);
  write("before it came", "worker 3 device 0");
  write("mine");
  write("other", "actor 2 b");
  write("of both", "worker 3 device 0");
  CHECK(texts({.reader = 1, .actor = ActorId{1}, .count = 10}) == Texts{"mine", "of both"});
  const LogQuery query{.reader = 2, .actor = ActorId{1}, .count = 1, .follow = true, .wait = 20s};
  CHECK(texts(query) == Texts{"of both"});
  write("other", "actor 2 b");
  // Its next life is in another worker.
  sources->add_holder(4, LeaseId{6}, {LogSource::Kind::actor, 1, "a"}, LogTime{} + 5s);
  write("of the next life", "worker 4 device 1");
  CHECK(texts(query) == Texts{"of the next life"});
}

TEST_CASE_METHOD(ReadersFixture, "lines that are not fetched in time are dropped and counted") {
  start({.lines = 3});
  const LogQuery query{.reader = 1, .count = 1, .follow = true, .wait = 20s};
  write("there");
  CHECK(texts(query) == Texts{"there"});
  // At once, so that none can be fetched between.
  write("1\n2\n3\n4\n5\n6");
  CHECK(texts(query) == Texts{"1", "2", "3"});
  const auto gap = answer(query);
  CHECK(gap.lines.empty());
  CHECK(gap.dropped == 3);
  write("7");
  const auto next = answer(query);
  CHECK(next.dropped == 0);
  CHECK(next.lines.at(0).text == "7");
}

TEST_CASE_METHOD(ReadersFixture, "more readers than may are refused, until one has not asked for long") {
  start({.readers = 2, .idle = 50ms});
  CHECK(texts({.reader = 1, .follow = true}).empty());
  auto waiting = ask({.reader = 2, .follow = true, .wait = 20s});
  const auto refused = ask({.reader = 3, .follow = true}).get();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error()
        == Error{Errc::queue_full, "2 are reading the log of this node already, which is as many as may"});
  // The first is forgotten, not the second, which waits.
  const auto end = Clock::now() + 20s;
  while (!ask({.reader = 3, .follow = true}).get().has_value())
    REQUIRE(Clock::now() < end);
  CHECK_FALSE(ask({.reader = 4, .follow = true}).get().has_value());
  write("line");
  CHECK(waiting.get()->lines.size() == 1);
}

TEST_CASE_METHOD(ReadersFixture, "a wrong count is refused, and who waits at the end is told so") {
  const auto wrong = ask({.reader = 1, .count = limits::log_tail_lines + 1}).get();
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code() == Errc::invalid_argument);
  CHECK(ask({.reader = 1, .count = limits::log_tail_lines + 1, .follow = true, .wait = 20s}).get().error().code()
        == Errc::invalid_argument);
  auto waiting = ask({.reader = 2, .follow = true, .wait = 20s});
  readers.reset();
  CHECK(waiting.get().error() == Error{Errc::unavailable, "the node is ending"});
}

TEST_CASE_METHOD(ReadersFixture, "no client takes the places of others, nor all of them those of who administers") {
  start({.readers = 6, .readers_per_name = 2, .readers_kept = 2});
  std::uint64_t last = 0;
  std::vector<std::future<Result<LogAnswer>>> waiting;
  const auto refusal = [&](const Caller& caller) -> std::string {
    auto answer = ask({.reader = ++last, .follow = true, .wait = 20s, .caller = caller});
    if (answer.wait_for(0s) != std::future_status::ready) {
      waiting.push_back(std::move(answer));
      return {};
    }
    const auto error = answer.get().error();
    CHECK(error.code() == Errc::queue_full);
    return error.message();
  };
  const Caller ann{"ann", false};
  const Caller bob{"bob", false};
  CHECK(refusal(ann).empty());
  CHECK(refusal(ann).empty());
  CHECK(refusal(ann) == "\"ann\" is reading the log of this node 2 times already, which is as often as one client may");
  CHECK(refusal(bob).empty());
  CHECK(refusal(bob).empty());
  CHECK(refusal({"eve", false}) == "4 clients are reading the log of this node already, which is as many as may");
  // Asking again is not another reader.
  CHECK(ask({.reader = 1, .follow = true, .wait = 0s, .caller = ann}).get().has_value());
  CHECK(refusal({"node", true}).empty());
  CHECK(refusal({}).empty());
  CHECK(refusal({}) == "6 are reading the log of this node already, which is as many as may");
}
