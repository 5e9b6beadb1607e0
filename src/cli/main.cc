#include "cli/cli.h"

int main(int argc, char** argv) { return quire::cli_main(argc, argv); }
