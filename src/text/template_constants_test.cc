#include "text/template_constants.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Texts = std::vector<std::string>;

TEST(TemplateConstants, AreThoseOfExpressionsAndStatements) {
  EXPECT_EQ(template_constants("don't {{ a['b'] ~ \"it's\" }} 'raw' {%- if '}}' in c -%}{# 'no' #}"
                               "{{ '' }}{{ 'b' }}{ 'x' }"),
            (Texts{"b", "it's", "}}"}));
  EXPECT_EQ(template_constants("{{ '\\n\\t\\'\\\\' }}"), (Texts{"\n\t'\\"}));
}

TEST(TemplateConstants, OfNoTemplateAreWhateverLooksLikeOne) {
  EXPECT_EQ(template_constants(""), Texts{});
  EXPECT_EQ(template_constants("{"), Texts{});
  EXPECT_EQ(template_constants("{{ 'open"), (Texts{"open"}));
  EXPECT_EQ(template_constants("{{ 'open\\"), (Texts{"open\\"}));
  EXPECT_EQ(template_constants("{# {{ 'a' }}"), Texts{});
}

}  // namespace
}  // namespace quire
