// What a model's text on the command line says, and the sentences about what it must not say.
#include "models_fixture.hpp"

#include <apps/serve/models/model_config.hpp>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Errc;

TEST_CASE("a model is a name and a file, with the defaults of the command line", "[serve]") {
  ModelConfig defaults;
  defaults.replicas = 3;
  const auto config = must(parse_model("digits=some/file.safetensors", defaults));
  CHECK(config.name == "digits");
  CHECK(config.file == "some/file.safetensors");
  CHECK(config.replicas == 3);
  CHECK(config.gpus == 0.25);
  CHECK(config.scaling().min_replicas == 3);
  CHECK(config.scaling().max_replicas == 3);
}

TEST_CASE("keys of a model go before the defaults", "[serve]") {
  const auto config = must(parse_model("a=f,gpus=0.5,memory=2GiB,replicas=2,min-replicas=1,max-replicas=4,"
                                       "idle-after=2.5,max-batch=8,max-queue=9,max-delay=0.5,timeout=20,priority=3,"
                                       "ahead=1",
                                       {}));
  CHECK(config.gpus == 0.5);
  CHECK(config.memory_bytes == 2ULL << 30);
  CHECK(config.scaling().min_replicas == 1);
  CHECK(config.scaling().max_replicas == 4);
  CHECK(config.scaling().idle_after == 2500ms);
  CHECK(config.max_batch == 8);
  CHECK(config.max_queue == 9);
  CHECK(config.max_delay == 500us);
  CHECK(config.timeout == gpuactors::Duration{20ms});
  CHECK(config.priority == 3);
  CHECK(config.ahead == 1);
}

TEST_CASE("the number of replicas at the start moves the bound that is not given", "[serve]") {
  CHECK(must(parse_model("a=f,replicas=2,max-replicas=4", {})).scaling().min_replicas == 2);
  CHECK(must(parse_model("a=f,replicas=3,min-replicas=1", {})).scaling().max_replicas == 3);
  CHECK(must(parse_model("a=f,min-replicas=3", {})).scaling().max_replicas == 3);
  CHECK(must(parse_model("a=f,replicas=5,max-replicas=4", {})).scaling().min_replicas == 4);
}

TEST_CASE("a model that cannot be read is refused with what would be right", "[serve]") {
  const auto refused = [](const std::string& text, const std::string& words) {
    INFO(text);
    const auto config = parse_model(text, {});
    CHECK(code_of(config) == Errc::invalid_argument);
    CHECK(says(config, words));
  };
  refused("", "NAME=FILE is expected");
  refused("digits", "NAME=FILE is expected");
  refused("digits=", "NAME=FILE is expected");
  refused("=file", "the name of a model has 1 to 64 letters");
  refused("a/b=file", "the name of a model has 1 to 64 letters");
  refused(".a=file", "does not begin with a dot");
  refused("a=f,", "\"\" is no key=value");
  refused("a=f,replicas", "\"replicas\" is no key=value, such as replicas=2");
  refused("a=f,replica=2", "a model has no key \"replica\"; did you mean \"replicas\"");
  refused("a=f,replicas=0", "replicas is \"0\": a number from 1 to 4096 is expected");
  refused("a=f,replicas=2x", "replicas is \"2x\"");
  refused("a=f,gpus=2", "gpus is \"2\": a number from 0.0001 to 1 is expected");
  refused("a=f,gpus=nan", "gpus is \"nan\"");
  refused("a=f,gpus=0.00015", "gpus");
  refused("a=f,memory=lots", "memory: ");
  refused("a=f,timeout=0", "timeout is \"0\"");
  refused("a=f,timeout=1e300", "timeout is \"1e300\"");
  refused("a=f,min-replicas=3,max-replicas=2", "min-replicas is 3 and max-replicas 2");
}

TEST_CASE("every key has a line of help, and can be set", "[serve]") {
  CHECK(model_keys().size() == 12);
  for (const auto& key : model_keys()) {
    CHECK(key.help.size() > 20);
    ModelConfig config;
    CHECK(set_key(config, key.name, "1"));
    CHECK_FALSE(set_key(config, key.name, "x"));
  }
}
