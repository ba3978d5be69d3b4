// What a daemon tells its operator, when nobody reads it.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/detail/notices.hpp>

#include <support/catch.hpp>

#include <mutex>
#include <string>
#include <vector>

using namespace gpuactors;
using detail::Notices;

namespace {

/// Where lines go, once it is open.
class Reader {
public:
  Notices::Sink sink() {
    return [this](std::string_view line) {
      const std::lock_guard reading{reading_};
      const std::lock_guard lock{mutex_};
      lines_.emplace_back(line);
    };
  }

  void stop() {
    reading_.lock();
  }

  void go_on() {
    reading_.unlock();
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock{mutex_};
    return lines_;
  }

private:
  std::mutex reading_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

} // namespace

TEST_CASE("lines for an operator are written in their order, all before the end", "[notices]") {
  Reader reader;
  {
    const Notices notices{reader.sink()};
    for (int i = 0; i < 1000; ++i)
      notices.entry()(std::to_string(i));
  }
  const auto lines = reader.lines();
  REQUIRE(lines.size() == 1000);
  for (std::size_t i = 0; i < lines.size(); ++i)
    CHECK(lines[i] == std::to_string(i));
}

TEST_CASE("whoever tells an operator something does not wait for him to read it", "[notices]") {
  Reader reader;
  const std::string line(1000, 'x');
  const auto many = 2 * limits::notice_bytes / line.size();
  {
    const Notices notices{reader.sink()};
    const auto tell = notices.entry();
    reader.stop();
    for (std::size_t i = 0; i < many; ++i)
      tell(line);
    reader.go_on();
  }
  const auto lines = reader.lines();
  REQUIRE_FALSE(lines.empty());
  CHECK(lines.size() < many);
  CHECK(lines.back()
        == std::to_string(many - (lines.size() - 1)) + " lines were left out here: they could not be written in time");
}

TEST_CASE("lines that come after the end are dropped", "[notices]") {
  Reader reader;
  Notices::Sink tell;
  {
    const Notices notices{reader.sink()};
    tell = notices.entry();
  }
  tell("too late");
  CHECK(reader.lines().empty());
}
