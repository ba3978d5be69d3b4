// What follows a models file: in which order, what of it counts, and who is told of what serves.
#include "models_fixture.hpp"

#include <apps/serve/models/model_loader.hpp>
#include <support/eventually.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::test::eventually;

namespace {

using Names = std::vector<std::string>;

/// A server whose models are loaded, and followed, by a loader.
class Followed {
public:
  explicit Followed(TableOptions options = {}) : server{std::move(options), "host:2x256MiB"} {
    write_checkpoint(second(), 2);
  }

  Followed(const Followed&) = delete;
  Followed& operator=(const Followed&) = delete;

  ~Followed() {
    server.table.close(gpuactors::TimePoint{});
  }

  [[nodiscard]] std::string second() const {
    return (server.folder / "second.safetensors").string();
  }

  [[nodiscard]] ModelEntry entry(const std::string& text) const {
    return {must(parse_model(text, {}))};
  }

  /// The model with the first file, and the second one as its canary.
  [[nodiscard]] ModelEntry shared(double share) const {
    auto result = entry("digits=" + server.file().string());
    result.canary = CanaryConfig{must(parse_model("digits=" + second(), {})), share};
    return result;
  }

  /// @returns how many do not serve.
  gpuactors::Result<std::size_t> start(const std::vector<ModelEntry>& entries, bool keeps_going = true) {
    Names names;
    for (const auto& one : entries) {
      server.table.set(one);
      names.push_back(one.config.name);
    }
    LoaderOptions options;
    options.keeps_going = keeps_going;
    options.loaded = [this](const std::string& name) {
      auto now = share();
      const std::lock_guard lock{mutex_};
      told_.push_back(name);
      shares_.push_back(std::move(now));
    };
    options.failed = [this](const std::string& sentence) {
      const std::lock_guard lock{mutex_};
      failed_.push_back(sentence);
    };
    loader = must(ModelLoader::start(server.table, names, options));
    return loader->outcome();
  }

  /// What the index says of a version: "READY: "; empty without such a version.
  [[nodiscard]] std::string state_of(const std::string& model, const std::string& version) const {
    for (const auto& one : server.table.repository())
      if (one.name == model && one.version == version)
        return one.state + ": " + one.reason;
    return {};
  }

  /// "gets 1 of the requests"; empty without a canary.
  [[nodiscard]] std::string share() const {
    for (const auto& one : server.table.repository())
      if (one.name == "digits" && one.reason.starts_with("gets "))
        return one.reason;
    return {};
  }

  /// A model whose version 1 is being unloaded until the gate is open, with what it has accepted.
  Asked remove_slowly(const std::string& model) {
    auto held = ask_async(server.table, request_for(model, some_rows(1, 1)));
    gate().await(1);
    loader->change({{}, {model}});
    REQUIRE(eventually([&] { return state_of(model, "1").starts_with("UNLOADING"); }));
    return held;
  }

  Names told() {
    const std::lock_guard lock{mutex_};
    return told_;
  }

  /// What the canary got when a model was told of.
  std::string share_when(const std::string& model) {
    REQUIRE(eventually([&] {
      const auto all = told();
      return std::count(all.begin(), all.end(), model) > 0;
    }));
    const std::lock_guard lock{mutex_};
    const auto at = std::find(told_.begin(), told_.end(), model) - told_.begin();
    return shares_.at(static_cast<std::size_t>(at));
  }

  Names failed() {
    const std::lock_guard lock{mutex_};
    return failed_;
  }

  Server server;

private:
  std::mutex mutex_;
  Names told_;
  Names shares_;
  Names failed_;

public:
  /// Ends before what it tells of.
  std::unique_ptr<ModelLoader> loader;
};

const std::string gated_model = "slow,actor=test/gated";
const std::string any_model = "any,actor=test/gated";

} // namespace

TEST_CASE("a rollback is not undone by what the models file said before", "[serve]") {
  Followed followed;
  REQUIRE(must(followed.start({followed.shared(0.5), followed.entry(gated_model)})) == 0);
  const ClosedGate closed;
  auto held = followed.remove_slowly("slow");
  // All this comes while the loader waits for what is being unloaded.
  followed.loader->change({{followed.shared(1), followed.entry(any_model)}, {}});
  CHECK(followed.share() == "gets 1 of the requests");
  followed.loader->change({{followed.shared(0)}, {}});
  CHECK(followed.share() == "gets 0 of the requests");
  gate().open();
  CHECK(followed.share_when("any") == "gets 0 of the requests");
  CHECK(followed.share() == "gets 0 of the requests");
  must(held.reply.get());
}

TEST_CASE("a model that was set and is gone before that was done goes", "[serve]") {
  Followed followed;
  REQUIRE(must(followed.start({followed.shared(0.5), followed.entry(gated_model)})) == 0);
  const ClosedGate closed;
  auto held = followed.remove_slowly("slow");
  followed.loader->change({{followed.shared(1)}, {}});
  followed.loader->change({{followed.entry(any_model)}, {"digits"}});
  gate().open();
  followed.share_when("any");
  CHECK(followed.state_of("digits", "1").empty());
  CHECK(code_of(followed.server.table.model_ready("digits", "")) == Errc::not_found);
}

TEST_CASE("a model that goes and comes back while the loader is busy stays what it is", "[serve]") {
  Followed followed;
  REQUIRE(must(followed.start({followed.shared(0.5), followed.entry(gated_model)})) == 0);
  const ClosedGate closed;
  auto held = followed.remove_slowly("slow");
  followed.loader->change({{}, {"digits"}});
  followed.loader->change({{followed.shared(0.25), followed.entry(any_model)}, {}});
  gate().open();
  CHECK(followed.share_when("any") == "gets 0.25 of the requests");
  CHECK(followed.state_of("digits", "1") == "READY: ");
  CHECK(followed.told() == Names{"digits", "slow", "any"});
}

TEST_CASE("a model that comes back while it is being removed serves again", "[serve]") {
  Followed followed;
  REQUIRE(must(followed.start({followed.entry(gated_model)})) == 0);
  const ClosedGate closed;
  auto held = followed.remove_slowly("slow");
  followed.loader->change({{followed.entry(gated_model)}, {}});
  gate().open();
  REQUIRE(eventually([&] { return followed.told().size() == 2; }));
  CHECK(must(followed.server.table.model_ready("slow", "")));
  CHECK(followed.told() == Names{"slow", "slow"});
}

TEST_CASE("a model without the canary that it should have serves, and is told of once for each version", "[serve]") {
  Followed followed;
  auto entry = followed.shared(0.5);
  entry.canary->config.file += ".missing";
  CHECK(must(followed.start({entry, followed.entry("none=" + followed.second() + ".missing")})) == 1);
  CHECK(followed.told() == Names{"digits"});
  REQUIRE(followed.failed().size() >= 2);
  CHECK(followed.failed()[0].find("the canary of model digits could not be loaded: ") == 0);
  CHECK(followed.failed()[1].find("model none could not be loaded: ") == 0);
  followed.loader->change({{followed.shared(0.5), followed.entry(any_model)}, {"none"}});
  CHECK(followed.share_when("any") == "gets 0.5 of the requests");
  CHECK(followed.told() == Names{"digits", "any"});
  // The canary becomes the model: that is another version.
  followed.loader->change({{followed.entry("digits=" + followed.second())}, {}});
  REQUIRE(eventually([&] { return followed.told().size() == 3; }));
  CHECK(followed.told() == Names{"digits", "any", "digits"});
}

TEST_CASE("a loader that does not keep going ends with the first model that cannot be loaded", "[serve]") {
  Followed followed;
  const auto outcome =
      followed.start({followed.entry("none=" + followed.second() + ".missing"), followed.entry(any_model)}, false);
  CHECK(code_of(outcome) == Errc::not_found);
  CHECK(followed.told().empty());
  CHECK(followed.failed().empty());
}
