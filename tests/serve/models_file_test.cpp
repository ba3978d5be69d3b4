// What a models file says, the sentences about what it must not say, and what follows when it says something else.
#include "models_fixture.hpp"

#include <apps/serve/models/models_file.hpp>

#include <fstream>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

namespace {

ModelsFile some_file() {
  ModelsFile file;
  file.path = "etc/models.json";
  file.defaults.replicas = 3;
  file.taken = {"typed"};
  return file;
}

} // namespace

TEST_CASE("a models file says what the command line says, in the order of the file", "[serve]") {
  const auto models = must(some_file().parse(R"({"models": {
    "words": {"actor": "acme/words", "set": {"unit": "K", "rate": 2, "deep": true}, "label": {"zone": "x"}},
    "digits": {"file": "digits.safetensors", "gpus": 0.5, "memory": "2GiB", "replicas": 2, "max-batch": 8,
               "timeout": 20, "max-delay": 0.5, "isolation": "process"},
    "else": {"file": "/where/ever"}
  }})"));
  REQUIRE(models.size() == 3);
  CHECK(models[0].config
        == must(parse_model("words,actor=acme/words,replicas=3,set=unit=K,set=rate=2,set=deep=true,"
                            "label=zone=x",
                            {})));
  CHECK(models[1].config
        == must(parse_model("digits=etc/digits.safetensors,gpus=0.5,memory=2GiB,replicas=2,max-batch=8,"
                            "timeout=20,max-delay=0.5,isolation=process",
                            {})));
  CHECK(models[2].config == must(parse_model("else=/where/ever,replicas=3", {})));
  CHECK(must(some_file().parse(R"({"models": {}})")).empty());
}

TEST_CASE("a canary is the model but for what it says, with its share of the requests", "[serve]") {
  const auto models = must(some_file().parse(R"({"models": {
    "a": {"canary": {"file": "new", "share": 0.1, "max-batch": 4, "set": {"y": 2}}, "actor": "t", "file": "old",
          "set": {"x": 1}}
  }})"));
  REQUIRE(models.size() == 1);
  CHECK(models[0].config == must(parse_model("a=etc/old,actor=t,replicas=3,set=x=1", {})));
  REQUIRE(models[0].canary.has_value());
  CHECK(models[0].canary->config == must(parse_model("a=etc/new,actor=t,replicas=3,set=x=1,set=y=2,max-batch=4", {})));
  CHECK(models[0].canary->share == 0.1);
}

TEST_CASE("every key of the command line is one of a models file", "[serve]") {
  for (const auto& key : model_keys()) {
    INFO(key.name);
    const auto value = key.repeats                  ? R"({"a": "1"})"
                       : key.name == "isolation"    ? R"("process")"
                       : key.name == "actor"        ? R"("acme/type")"
                       : key.name == "max-replicas" ? "4"
                       : key.name == "in-place"     ? "true"
                                                    : "1";
    const auto text = R"({"models": {"a": {"actor": "t", ")" + std::string{key.name} + "\": " + value + "}}}";
    // What is there twice would be refused.
    const auto once = key.name == "actor" ? R"({"models": {"a": {"actor": "acme/type"}}})" : text;
    CHECK(some_file().parse(once));
  }
}

TEST_CASE("a models file that cannot be read is refused with the place, and what would be right", "[serve]") {
  const auto refused = [](const std::string& text, const std::string& words) {
    INFO(text);
    const auto models = some_file().parse(text);
    CHECK(code_of(models) == Errc::invalid_argument);
    CHECK(says(models, words));
  };
  refused("", "parse error at line 1, column 1");
  refused("{\n\"models\": }", "parse error at line 2");
  refused("[]", R"({"models": {"NAME": {"file": "checkpoint.safetensors"}}} is expected)");
  refused(R"({"models": []})", R"({"models": {"NAME")");
  refused(R"({"models": {}, "model": 1})", "there is no key \"model\"");
  refused(R"({"models": {"a": {"file": "f"}, "a": {"file": "g"}}})", "the key \"a\" is there twice");
  refused(R"({"models": {"a/b": {"file": "f"}}})", "models.a/b: the name of a model has 1 to 64 letters");
  refused(R"({"models": {"a": "f"}})", "models.a: an object is expected, such as {\"file\": ");
  refused(R"({"models": {"a": {}}})", "models.a: \"file\" is expected");
  refused(R"({"models": {"a": {"file": "f", "replica": 2}}})",
          "models.a: there is no key \"replica\"; did you mean \"replicas\"");
  refused(R"({"models": {"a": {"fiel": "f"}}})", "models.a: there is no key \"fiel\"; did you mean \"file\"");
  refused(R"({"models": {"a": {"file": "f", "replicas": 0}}})",
          "models.a.replicas: replicas is \"0\": a number from 1 to 4096 is expected");
  refused(R"({"models": {"a": {"file": "f", "replicas": [2]}}})", "models.a.replicas: a text or a number is expected");
  refused(R"({"models": {"a": {"actor": "t", "set": "x=1"}}})", "models.a.set: an object of names and values");
  refused(R"({"models": {"a": {"actor": "t", "set": {"x": null}}}})", "models.a.set.x: a text or a number");
  refused(R"({"models": {"a": {"file": "f", "set": {"x": 1}}}})", "models.a: set=x=... is for actor types");
  const auto refused_canary = [&](const std::string& canary, const std::string& words) {
    refused(R"({"models": {"a": {"file": "f", "canary": )" + canary + "}}}", "models.a.canary: " + words);
  };
  refused_canary("0.1", "an object is expected");
  refused_canary("{}", "\"share\" is expected, the part of the requests that it gets: a number from 0 to 1");
  refused_canary(R"({"share": 1.5})", "\"share\" is expected");
  refused_canary(R"({"share": -0.5})", "\"share\" is expected");
  refused_canary(R"({"share": "0.1"})", "\"share\" is expected");
  refused_canary(R"({"shares": 0.1})", "there is no key \"shares\"; did you mean \"share\"");
  refused_canary(R"({"share": 0.1, "canary": {}})", "there is no key \"canary\"");
  refused(R"({"models": {"a": {"file": "f", "share": 0.1}}})", "models.a: there is no key \"share\"");
  refused(R"({"models": {"typed": {"file": "f"}}})", "models.typed: there are two models named \"typed\"");
}

TEST_CASE("a models file is read with its name in the sentences, and its folder before its files", "[serve]") {
  const gpuactors::test::TemporaryFolder folder;
  ModelsFile file;
  file.path = folder / "models.json";
  CHECK(says(file.read(), file.path.string() + " cannot be read: No such file"));
  std::ofstream{file.path} << R"({"models": {"a": {"file": "a.safetensors"}}})";
  CHECK(must(file.read()).at(0).config.file == (folder / "a.safetensors").string());
  std::ofstream{file.path} << "{";
  CHECK(says(file.read(), file.path.string() + ": parse error at line 1"));
  std::ofstream{file.path} << std::string((1U << 20) + 1, ' ');
  CHECK(says(file.read(), file.path.string() + " has more than 1048576 bytes"));
  // How much it would be does not matter: nothing of it is copied.
  std::filesystem::resize_file(file.path, std::uintmax_t{1} << 33);
  CHECK(says(file.read(), file.path.string() + " has more than 1048576 bytes"));
  file.path = folder.path();
  CHECK(says(file.read(), "is not a file"));
}

TEST_CASE("of a models file that says something else, only what differs is to be done", "[serve]") {
  const auto before = must(some_file().parse(
      R"({"models": {"same": {"file": "s"}, "gone": {"file": "g"}, "other": {"file": "o", "replicas": 1}}})"));
  const auto after = must(some_file().parse(
      R"({"models": {"new": {"file": "n"}, "other": {"file": "o", "replicas": 2}, "same": {"file": "s"}}})"));
  const auto changes = changes_between(before, after);
  REQUIRE(changes.set.size() == 2);
  CHECK(changes.set[0].config.name == "new");
  CHECK(changes.set[1] == after[1]);
  CHECK(changes.gone == std::vector<std::string>{"gone"});
  auto shifted = after;
  shifted[0].canary = CanaryConfig{shifted[0].config, 0.5};
  CHECK(changes_between(after, shifted).set == std::vector{shifted[0]});
  CHECK(changes_between(after, after).set.empty());
  CHECK(changes_between(after, after).gone.empty());
}
