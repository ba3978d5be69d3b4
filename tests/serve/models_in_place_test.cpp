// A new version that takes the place of the only replica there is, where a model is told to have it so.
#include "models_fixture.hpp"

#include <support/eventually.hpp>

#include <future>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::test::eventually;

namespace {

/// A server with one device, or others, which keeps what it notes.
struct SmallServer {
  explicit SmallServer(const std::string& devices = "host:1x64MiB")
    : server{{.load_wait = 100ms, .notice = notices.taker()}, devices} {
    // nop
  }

  /// The model "digits" of a file, as the models file says it.
  [[nodiscard]] ModelEntry entry(const std::filesystem::path& file, const std::string& keys) const {
    return {must(parse_model("digits=" + file.string() + "," + keys, {}))};
  }

  Notices notices;
  Server server;
};

/// One whose only replica makes room for the next version: a request runs there, which is held, and another one waits.
struct MakingRoom : SmallServer {
  MakingRoom() {
    server.serve(gated_key + "gpus=1,in-place=true,max-batch=1");
    runs = ask_async(server.table, request_for("digits", some_rows(1, 1)));
    gate().await(1);
    waits = ask_async(server.table, request_for("digits", some_rows(1, 2)));
    loaded = std::async(std::launch::async, [this] { return server.table.load("digits", {}); });
    REQUIRE(eventually([this] { return !must(server.table.model_ready("digits", "")); }));
  }

  Asked runs;
  Asked waits;
  std::future<gpuactors::Result<void>> loaded;
  const ClosedGate closed; // opens before the end of the load is waited for
};

} // namespace

TEST_CASE("a version takes the place of an only replica where its model is told so", "[serve]") {
  SmallServer small;
  auto& table = small.server.table;
  small.server.serve("gpus=1,in-place=true");
  write_checkpoint(small.server.file(), 2);
  must(table.load("digits", {}));
  CHECK(small.notices.count("replica 1 has made room for the next version") == 1);
  CHECK(must(table.describe("digits", "")).versions == std::vector<std::string>{"2"});
  const auto x = some_rows(1, 1);
  const auto y = expected(small.server.file(), x);
  const auto values = values_of(must(ask(table, request_for("digits", x))));
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(values.at(i) == Approx(y[i]).margin(1e-5));
}

TEST_CASE("what an only replica has accepted is answered before it makes room, and nothing else is taken", "[serve]") {
  MakingRoom small;
  auto& table = small.server.table;
  const auto refused = ask(table, request_for("digits", some_rows(1, 3)));
  CHECK(code_of(refused) == Errc::unavailable);
  CHECK(says(refused, "model digits, version 1 takes no requests: its only replica makes room for the next version"));
  CHECK(table.repository().front().state == "UNAVAILABLE");
  CHECK(table.repository().front().reason == "it takes no requests: its only replica makes room for the next version");
  CHECK_FALSE(small.runs.reply.ready());
  CHECK_FALSE(small.waits.reply.ready());
  gate().open();
  CHECK(must(small.runs.reply.get()).version == "1");
  CHECK(must(small.waits.reply.get()).version == "1");
  must(small.loaded.get());
  CHECK(must(ask(table, request_for("digits", some_rows(1, 4)))).version == "2");
}

TEST_CASE("an only replica that has made room in vain comes back", "[serve]") {
  SmallServer small;
  auto& table = small.server.table;
  small.server.serve("gpus=1,in-place=true");
  for (int round = 0; round < 2; ++round) {
    write_diverged_checkpoint(small.server.file());
    const auto loaded = table.load("digits", {});
    CHECK(code_of(loaded) == Errc::invalid_argument);
    REQUIRE(eventually([&] { return must(table.model_ready("digits", "")); }));
    CHECK(must(ask(table, request_for("digits", some_rows(1, 1)))).version == "1");
  }
}

TEST_CASE("a model that is settled again and again has its only replica make room in vain but once", "[serve]") {
  constexpr auto made_room = "has made room for the next version";
  SmallServer small;
  auto& table = small.server.table;
  const auto serves_again = [&] { return must(table.model_ready("digits", "")); };
  table.set(small.entry(small.server.file(), "gpus=1"));
  must(table.settle("digits"));
  const auto next = small.server.folder / "next.safetensors";
  write_diverged_checkpoint(next);
  table.set(small.entry(next, "gpus=1,in-place=true"));
  CHECK(code_of(table.settle("digits")) == Errc::invalid_argument);
  CHECK(small.notices.count(made_room) == 1);
  REQUIRE(eventually(serves_again));
  for (int round = 0; round < 3; ++round) {
    // Said once more by who follows a models file, whatever has changed in it.
    table.set(small.entry(next, "gpus=1,in-place=true"));
    REQUIRE(table.is_missing("digits"));
    const auto settled = table.settle("digits");
    CHECK(code_of(settled) == Errc::no_capacity);
    CHECK(says(settled, "; version 1 keeps its only replica, which has made room in vain: "));
    CHECK(says(settled, "its training has diverged"));
    CHECK(serves_again());
    CHECK(must(ask(table, request_for("digits", some_rows(1, 1)))).version == "1");
  }
  CHECK(small.notices.count(made_room) == 1);
  SECTION("and again for a version that is to be another one") {
    table.set(small.entry(next, "gpus=1,in-place=true,max-queue=7"));
    CHECK(code_of(table.settle("digits")) == Errc::invalid_argument);
    CHECK(small.notices.count(made_room) == 2);
    REQUIRE(eventually(serves_again));
    CHECK(code_of(table.settle("digits")) == Errc::no_capacity);
  }
  SECTION("and again where a client loads it") {
    CHECK(code_of(table.load("digits", {})) == Errc::invalid_argument);
    CHECK(small.notices.count(made_room) == 2);
    REQUIRE(eventually(serves_again));
    CHECK(code_of(table.settle("digits")) == Errc::no_capacity);
    write_checkpoint(next, 2);
    must(table.load("digits", {}));
    CHECK(small.notices.count(made_room) == 3);
    CHECK_FALSE(table.is_missing("digits"));
  }
}

TEST_CASE("only the first replica of a version takes the place of an only one", "[serve]") {
  SmallServer small{"host:2x64MiB"};
  auto& table = small.server.table;
  table.set(small.entry(small.server.file(), "gpus=1"));
  must(table.settle("digits"));
  table.set(small.entry(small.server.file(), "gpus=1,replicas=2,in-place=true"));
  must(table.settle("digits"));
  CHECK(small.notices.count("has made room") == 0);
  CHECK(must(ask(table, request_for("digits", some_rows(1, 1)))).version == "2");
  // The other one comes when version 1 has ended.
  CHECK(eventually([&] { return must(table.describe("digits", "")).replicas == 2; }));
}

TEST_CASE("an only replica that dies when it was to make room has made it", "[serve]") {
  MakingRoom small;
  auto& table = small.server.table;
  must(small.server.cluster.kill("digits/1/1"));
  must(small.loaded.get());
  CHECK(small.notices.count("has made room") == 0);
  for (auto* asked : {&small.runs, &small.waits})
    CHECK(code_of(asked->reply.get()) == Errc::unavailable);
  CHECK(must(table.describe("digits", "")).versions == std::vector<std::string>{"2"});
}

TEST_CASE("a version that finds room beside an only replica does not take its place before it serves", "[serve]") {
  SmallServer small;
  small.server.serve("gpus=0.5,in-place=true");
  must(small.server.table.load("digits", {}));
  CHECK(small.notices.count("has made room") == 0);
  CHECK(must(ask(small.server.table, request_for("digits", some_rows(1, 1)))).version == "2");
}
