// What a model's text on the command line says, and the sentences about what it must not say.
#include "models_fixture.hpp"

#include <apps/serve/models/model_config.hpp>

#include <map>

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
                                       "ahead=1,max-sequences=7,sequence-idle=1.5,replica-wait=0,in-place=true,"
                                       "queue-timeout=40",
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
  CHECK(config.max_sequences == 7);
  CHECK(config.sequence_idle == 1500ms);
  CHECK(config.replica_wait == 0s);
  CHECK(config.in_place);
  CHECK(config.queue_timeout == gpuactors::Duration{40ms});
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
  refused("a,replicas=2", "NAME=FILE is expected");
  refused("a,actor=", "\"actor=\" is no key=value");
  refused("a=,actor=t", "NAME=FILE is expected");
  refused("a,actor=t,set=x", "set is \"x\": set=NAME=VALUE is expected");
  refused("a,actor=t,isolation=yes", "isolation is \"yes\": thread or process is expected");
  refused("a=f,set=x=1", "set=x=... is for actor types: name one by actor=TYPE");
  refused("a=f,timeout=0", "timeout is \"0\"");
  refused("a=f,replica-wait=-1", "replica-wait is \"-1\": a number from 0 to 86400 is expected");
  refused("a=f,in-place=yes", "in-place is \"yes\": true or false is expected");
  refused("a=f,timeout=1e300", "timeout is \"1e300\"");
  refused("a=f,min-replicas=3,max-replicas=2", "min-replicas is 3 and max-replicas 2");
}

TEST_CASE("a model of an actor type has its settings, and needs no file", "[serve]") {
  ModelConfig defaults;
  must(set_key(defaults, "set", "unit=K"));
  must(set_key(defaults, "set", "rate=1"));
  const auto config = must(parse_model("a=some/file,actor=acme/type,set=rate=2,set=where=a=b,label=zone=x,"
                                       "isolation=process",
                                       defaults));
  CHECK(config.file == "some/file");
  CHECK(config.actor == "acme/type");
  CHECK(config.settings == std::map<std::string, std::string>{{"unit", "K"}, {"rate", "2"}, {"where", "a=b"}});
  CHECK(config.labels == std::map<std::string, std::string>{{"zone", "x"}});
  CHECK(config.isolation == gpuactors::Isolation::process);
  CHECK(must(parse_model("a,actor=acme/type", {})).file.empty());
  defaults.actor = "acme/type";
  CHECK(must(parse_model("a", defaults)).actor == "acme/type");
}

TEST_CASE("every key has a line of help, and can be set", "[serve]") {
  CHECK(model_keys().size() == 23);
  const std::map<std::string_view, std::string> values{
      {"TYPE", "acme/type"}, {"K=V", "a=b"}, {"thread|process", "process"}, {"true|false", "true"}};
  for (const auto& key : model_keys()) {
    INFO(key.name);
    CHECK(key.help.size() > 20);
    CHECK(key.repeats == (key.value == "K=V"));
    ModelConfig config;
    const auto value = values.find(key.value);
    CHECK(set_key(config, key.name, value == values.end() ? "1" : value->second));
    CHECK_FALSE(set_key(config, key.name, key.value == "TYPE" ? std::string(200, 'x') : "x"));
  }
}
