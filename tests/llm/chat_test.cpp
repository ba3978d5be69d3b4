// Chat templates: what Jinja renders of the same ones, what is refused, and what ends where.
#include <apps/llm/chat/template.hpp>
#include <support/catch.hpp>
#include <support/results.hpp>

#include <nlohmann/json.hpp>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

using namespace llm;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::test::fails;
using gpuactors::test::says;
using Json = nlohmann::ordered_json;

namespace {

std::string read_file(const std::string& name) {
  std::ifstream file{std::string{LLM_TEST_DATA "/chat/"} + name};
  REQUIRE(file);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Result<std::string> render(const std::string& text, const Json& variables = Json::object(),
                           const RenderOptions& options = {}) {
  auto made = ChatTemplate::parse(text);
  return made ? made->render(variables, options) : gpuactors::fail(made.error());
}

/// What is said when a template is read.
gpuactors::Error refused(const std::string& text) {
  const auto made = ChatTemplate::parse(text);
  INFO(text);
  REQUIRE_FALSE(made);
  return made.error();
}

/// What is said when it is rendered.
gpuactors::Error failed(const std::string& text, const Json& variables = Json::object(),
                        const RenderOptions& options = {}) {
  INFO(text);
  const auto made = ChatTemplate::parse(text);
  REQUIRE(made);
  const auto rendered = made->render(variables, options);
  REQUIRE_FALSE(rendered);
  return rendered.error();
}

/// Compares with what Jinja made: a text, or an error, whose text is known if the template raised it.
void check(const Result<std::string>& rendered, const Json& expected) {
  if (expected.contains("output")) {
    if (!rendered)
      FAIL_CHECK(to_string(rendered.error()));
    else
      CHECK(*rendered == expected["output"].get<std::string>());
    return;
  }
  if (rendered) {
    FAIL_CHECK("rendered: " << *rendered);
    return;
  }
  const auto raised = expected["raised"].get<std::string>();
  if (raised.empty())
    CHECK(rendered.error().code() != Errc::internal);
  else
    CHECK(fails(rendered.error(), Errc::invalid_argument, raised));
}

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i)
    text += part;
  return text;
}

} // namespace

TEST_CASE("templates of the families of models render what Jinja renders") {
  const auto expected = Json::parse(read_file("expected.json"));
  RenderOptions options;
  options.now = std::chrono::local_seconds{std::chrono::seconds{expected["now"].get<std::int64_t>()}};
  REQUIRE(expected["templates"].size() > 10);
  for (const auto& one : expected["templates"]) {
    const auto name = one["name"].get<std::string>();
    auto text = read_file("templates/" + name);
    const auto made = gpuactors::test::must(ChatTemplate::parse(std::move(text)));
    for (const auto& expectation : one["cases"]) {
      INFO(name << ": " << expectation["name"]);
      check(made.render(expected["conversations"][expectation["name"].get<std::string>()], options), expectation);
    }
  }
}

TEST_CASE("expressions and tags mean what they mean in Jinja") {
  const auto expected = Json::parse(read_file("expected.json"));
  RenderOptions options;
  options.now = std::chrono::local_seconds{std::chrono::seconds{expected["now"].get<std::int64_t>()}};
  REQUIRE(expected["expressions"].size() > 120);
  for (const auto& one : expected["expressions"]) {
    INFO(one["template"]);
    check(render(one["template"].get<std::string>(), expected["variables"], options), one);
  }
}

TEST_CASE("what a template raises is said as it is") {
  const auto error = failed("\n{{ raise_exception('Roles must alternate, not ' ~ role) }}", {{"role", "tool"}});
  CHECK(error.code() == Errc::invalid_argument);
  CHECK(error.message() == "Roles must alternate, not tool");
}

TEST_CASE("the order of keys is that of the JSON, or of the alphabet") {
  const auto made = *ChatTemplate::parse("{{ d | tojson }}");
  CHECK(*made.render(Json::parse(R"({"d": {"b": 1, "a": 2}})")) == R"({"b": 1, "a": 2})");
  CHECK(*made.render(nlohmann::json::parse(R"({"d": {"b": 1, "a": 2}})")) == R"({"a": 2, "b": 1})");
}

TEST_CASE("what is unknown is refused when a template is read, with its line") {
  const std::pair<const char*, const char*> refusals[] = {
      {"\n\n{% include 'x' %}", "line 3: the tag {% include %} is unknown"},
      {"{% call f() %}{% endcall %}", "line 1: the tag {% call %} is unknown"},
      {"{% filter upper %}{% endfilter %}", "the tag {% filter %}"},
      {"{% with a = 1 %}{% endwith %}", "the tag {% with %}"},
      {"{% raw %}{% endraw %}", "the tag {% raw %}"},
      {"{% do x %}", "the tag {% do %}"},
      {"a\n{{ x | wordwrap }}", "line 2: the filter wordwrap is unknown"},
      {"{{ x | map('escape') }}", "the filter escape is unknown"},
      {"{{ x | selectattr('a', 'sameas', 1) }}", "the test sameas is unknown"},
      {"{{ x is callable }}", "the test callable is unknown"},
      {"{{ x.append(1) }}", "the method append() is unknown"},
      {"{{ '%s'.format(1) }}", "the method format() is unknown"},
      {"{{ x.__class__ }}", "the attribute __class__ is one of Python's own"},
      {"{{ f(1) }}", "the function f() is unknown"},
      {"{{ lipsum }}", "the name lipsum, which means something in Jinja, is unknown"},
      {"{{ self }}", "the name self"},
      {"{% macro m() %}{{ caller }}{% endmacro %}", "the name caller"},
      {"{{ 2 ** 3 }}", "the operator **"},
      {"{{ '%d' % 3 }}", "a text is formatted by %"},
      {"{{ f(*x) }}", "arguments are passed by *"},
      {"{{ (x | safe) + 'a' }}", "the filter safe is known at the end of {{ }} only"},
      {"{% for x in y recursive %}{% endfor %}", "a loop is recursive"},
      {"{% for x in y %}{{ loop }}{% endfor %}", "loop is used for other things than its attributes"},
      {"{% for x in y %}{{ loop.depth2 }}{% endfor %}", "the attribute depth2 of loop is unknown"},
      {"{% set loop = 1 %}", "loop is set"},
      {"{{ 99999999999999999999 }}", "99999999999999999999 is no whole number of 64 bits"},
      {"{{ 0x10 }}", "a number begins with 0"},
      {"{{ '\\N{BULLET}' }}", "a backslash in a text is followed by what makes no character"},
  };
  for (const auto& [text, words] : refusals)
    CHECK(fails(refused(text), Errc::unsupported, words));
}

TEST_CASE("what is no template is refused when it is read, with its line") {
  const std::pair<const char*, const char*> refusals[] = {
      {"a\nb {{ x", "line 2: a tag {{ does not end"},
      {"{% if x", "a tag {% does not end"},
      {"\n{# x", "line 2: a comment does not end"},
      {"{{ 'x }}", "a text does not end"},
      {"{{ }}", "there is the end of the tag instead of an expression"},
      {"{{ (1 }}", "the bracket } closes nothing"},
      {"{{ 1) }}", "the bracket ) closes nothing"},
      {"{{ a ! b }}", "the character ! is none of a tag's"},
      {"{{ a b }}", "there is b instead of }}"},
      {"{{ a | }}", "instead of the name of a filter"},
      {"{{ a . 'x' }}", "instead of the name of an attribute"},
      {"{% if x %}\n\n", "the template ends before {% endif %}"},
      {"{% for x in y %}{% endif %}", "the tag {% endif %} is unknown"},
      {"{% endfor %}", "the tag {% endfor %} is unknown"},
      {"{% for 1 in y %}{% endfor %}", "instead of the name of a variable"},
      {"{% set true = 1 %}", "true is set"},
      {"{% break %}", "{% break %} stands in no loop"},
      {"{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}", "{% break %} stands in no loop"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "a parameter without a value follows one with a value"},
      {"{% macro m(a, a) %}{% endmacro %}", "two parameters have the name a"},
      {"{{ range(a=1, 2) }}", "an argument without a name follows one with a name"},
  };
  for (const auto& [text, words] : refusals)
    CHECK(fails(refused(text), Errc::unsupported, words));
  CHECK(fails(refused("\xFF"), Errc::invalid_argument, "not UTF-8"));
  CHECK(fails(refused(std::string(ChatTemplate::most_bytes + 1, ' ')), Errc::invalid_argument, "262145 bytes"));
}

TEST_CASE("errors of a rendering name the line") {
  CHECK(fails(failed("a\n\n{{ 1 + x }}"), Errc::invalid_argument, "in line 3, uses x, which is undefined"));
  CHECK(fails(failed("{% if true %}\n{% for x in 5 %}{% endfor %}{% endif %}"), Errc::invalid_argument,
              "in line 2, goes through a whole number"));
  CHECK(fails(failed("{% macro m(x) %}\n{{ x.y.z }}{% endmacro %}\n\n{{ m({}) }}"), Errc::invalid_argument,
              "in line 2, asks for the attribute y of a dict, which has none"));
  CHECK(fails(failed("\n{{ 'a' if\n1 < 'x' }}"), Errc::invalid_argument, "in line 3"));
}

TEST_CASE("what Python would render in ways of its own is an error") {
  CHECK(fails(failed("{{ [1] | map('string') }}"), Errc::unsupported, "writes a generator"));
  CHECK(fails(failed("{{ 9223372036854775807 + 1 }}"), Errc::unsupported, "more than 64 bits"));
  CHECK(fails(failed("{{ -9223372036854775807 - 2 }}"), Errc::unsupported, "more than 64 bits"));
  CHECK(fails(failed("{{ x }}", {{"x", 18446744073709551615U}}), Errc::unsupported, "18446744073709551615"));
  CHECK(fails(failed("{{ 1e308 * 10 }}"), Errc::unsupported, "not finite"));
  CHECK(fails(failed("{{ 'stra\u00DFe' | upper }}"), Errc::unsupported, "no table"));
  CHECK(fails(failed("{{ ['\u07FF'] }}"), Errc::unsupported, "U+07FF"));
  CHECK(fails(failed("{{ strftime_now('%d') }}"), Errc::unsupported, "asks for the time"));
  CHECK(fails(failed("{{ x.real }}", {{"x", 1}}), Errc::unsupported, "the attribute real of a whole number"));
  CHECK(fails(failed("{{ x % 1 }}", {{"x", "%d"}}), Errc::unsupported, "formats a text by %"));
}

TEST_CASE("variables are an object of texts in UTF-8 and numbers that fit") {
  CHECK(fails(failed("", Json::array()), Errc::invalid_argument, "no JSON object"));
  CHECK(fails(failed("", {{"x", "\xC3"}}), Errc::invalid_argument, "not UTF-8"));
  CHECK(fails(failed("", {{"x", std::numeric_limits<double>::infinity()}}), Errc::unsupported, "not finite"));
  Json deep;
  for (int i = 0; i < 200; ++i)
    deep = Json::array({deep});
  CHECK(fails(failed("", {{"x", deep}}), Errc::invalid_argument, "more than 100 lists"));
  CHECK(*render("{{ x }}", {{"x", std::string("a\0b", 3)}}) == std::string("a\0b", 3));
}

TEST_CASE("no template renders without an end, or more than it may") {
  RenderOptions small;
  small.steps = 400'000;
  small.made_bytes = 1 << 20U;
  small.output_bytes = 1'000;
  const auto endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
  CHECK(fails(failed(endless, Json::object(), small), Errc::invalid_argument, "400000 steps"));
  CHECK(
      fails(failed("{{ 'x' * 1001 }}", Json::object(), small), Errc::invalid_argument, "writes more than 1000 bytes"));
  CHECK(fails(failed("{{ ('x' * 9999999999999) | length }}"), Errc::invalid_argument, "268435456 bytes"));
  CHECK(fails(failed("{{ ([0] * 9223372036854775807) | length }}"), Errc::invalid_argument, "268435456 bytes"));
  const auto doubling =
      "{% set n = namespace(x='xxxx') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
  CHECK(fails(failed(doubling, Json::object(), small), Errc::invalid_argument, "1048576 bytes"));
  const auto nesting = "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}";
  CHECK(fails(failed(nesting, Json::object(), small), Errc::invalid_argument, "more than 100 lists"));
  const auto filters =
      "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = n.x | map('upper') %}{% endfor %}";
  CHECK(fails(failed(filters, Json::object(), small), Errc::invalid_argument, "more than 100 lists"));
  const auto wide =
      "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}";
  CHECK(fails(failed(wide, Json::object(), small), Errc::invalid_argument, "limit"));
  const auto equal = "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}"
                     "{% set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}";
  CHECK(fails(failed(equal, Json::object(), small), Errc::invalid_argument, "steps"));
  CHECK(fails(failed("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Errc::invalid_argument,
              "calls macros in each other"));
  CHECK(fails(failed("{{ ('a' * 10000) | replace('', 'b' * 1000) | length }}", Json::object(), small),
              Errc::invalid_argument, "limit"));
  CHECK(fails(failed("{{ ([''] * 10000) | join('b' * 1000) | length }}", Json::object(), small), Errc::invalid_argument,
              "limit"));
}

TEST_CASE("what is undefined takes no more memory than it may, however long its name") {
  RenderOptions small;
  small.made_bytes = 1 << 20U;
  CHECK(*render("{{ ([0] * 999) | map(attribute='a' * 99999) | list | length }}", Json::object(), small) == "999");
  CHECK(fails(failed("{{ ([0] * 6000) | map(attribute='abcdefgh') | list | length }}", Json::object(), small),
              Errc::invalid_argument, "1048576 bytes"));
  const auto name = repeated("x", 99'999);
  CHECK(failed("{{ " + name + ".y }}").message().size() < 200);
  CHECK(failed("{{ {}['" + name + "'].y }}").message().size() < 200);
  CHECK(failed("{% macro m(" + name + ") %}{{ " + name + ".y }}{% endmacro %}{{ m() }}").message().size() < 200);
}

TEST_CASE("whatever goes through a long text or tuple takes steps for it") {
  RenderOptions small;
  small.steps = 100'000;
  const auto rendered = [&](const std::string& expression, int times) {
    return render("{% set big = 'a' * 99999 %}{% set many = ('b',) * 9999 %}{% for i in range(" + std::to_string(times)
                      + ") %}" + expression + "{% endfor %}",
                  {{"key", std::string(99'999, 'a')}, {"dict", {{std::string(99'998, 'a') + "b", 1}}}}, small);
  };
  for (const char* expression :
       {"{{ ''.strip(big) }}", "{{ '' | trim(big) }}", "{{ 'x'.startswith(many) }}", "{{ big[999999] }}",
        "{% for c in big %}{% break %}{% endfor %}", "{{ {}[many] }}", "{{ dict[key] }}",
        "{{ [1] | map(attribute=big) | list | length }}", "{{ big | int }}", "{{ big | float }}"}) {
    INFO(expression);
    CHECK(rendered(expression, 1));
    CHECK(says(rendered(expression, 200), "more than 100000 steps"));
  }
}

TEST_CASE("a namespace of many names takes steps for each look") {
  RenderOptions small;
  small.steps = 100'000;
  Json names = Json::object();
  for (int i = 0; i < 4'000; ++i)
    names["n" + std::to_string(i)] = i;
  const auto rendered = [&](const std::string& times, const std::string& look) {
    return render("{% set n = namespace(names) %}{% for i in range(" + times + ") %}" + look + "{% endfor %}",
                  {{"names", names}}, small);
  };
  for (const char* look : {"{{ n.other }}", "{% set n.n3999 = 1 %}"}) {
    INFO(look);
    CHECK(rendered("1", look));
    CHECK(says(rendered("200", look), "more than 100000 steps"));
  }
}

TEST_CASE("lines and characters to strip are counted before they take memory") {
  RenderOptions small;
  small.made_bytes = 1 << 20U;
  CHECK(*render("{{ ('a\n' * 5000).splitlines() | length }} {{ 'a\r\nb\n\nc'.splitlines() | join(';') }}",
                Json::object(), small)
        == "5000 a;b;;c");
  CHECK(fails(failed("{{ ('\n' * 500000).splitlines() | length }}", Json::object(), small), Errc::invalid_argument,
              "1048576 bytes"));
  CHECK(fails(failed("{{ 'a'.strip('b' * 300000) }}", Json::object(), small), Errc::invalid_argument, "1048576 bytes"));
}

TEST_CASE("no template is nested deeper than the stack bears") {
  CHECK(fails(refused("{{ " + repeated("(", 10'000) + repeated(")", 10'000) + " }}"), Errc::unsupported,
              "in each other"));
  CHECK(fails(refused("{{ " + repeated("[", 10'000) + repeated("]", 10'000) + " }}"), Errc::unsupported,
              "in each other"));
  CHECK(fails(refused("{{ " + repeated("not ", 10'000) + "1 }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{{ " + repeated("-", 10'000) + "1 }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{{ 1" + repeated(" + 1", 10'000) + " }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{{ x" + repeated(".x", 10'000) + " }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{{ x" + repeated("|list", 10'000) + " }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{{ 1" + repeated(" if 1 else 1", 10'000) + " }}"), Errc::unsupported, "in each other"));
  CHECK(fails(refused(repeated("{% if x %}", 10'000)), Errc::unsupported, "in each other"));
  CHECK(fails(refused("{% set " + repeated("(", 10'000)), Errc::unsupported, "does not end"));
  CHECK(*render("{{ " + repeated("(", 20) + "1" + repeated(")", 20) + repeated(" + 1", 90) + " }}") == "91");
}
