/* Writes the page of all keys to the file given as the argument. */
#include <stdio.h>

#include "config/config.h"

int main(int argc, char **argv)
{
    FILE *f = argc == 2 ? fopen(argv[1], "w") : NULL;

    if (f == NULL) {
        perror(argc == 2 ? argv[1] : "usage: config_docs FILE");
        return 2;
    }
    config_markdown(f);
    if (fclose(f) != 0) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
