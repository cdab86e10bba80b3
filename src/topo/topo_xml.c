#include "topo/topo_xml.h"

#include <libxml/parser.h>
#include <libxml/tree.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

enum status topo_xml_read(const char *path, const char *text, size_t n, xmlDoc **out)
{
    xmlDoc *doc = n > INT_MAX
                      ? NULL
                      : xmlReadMemory(text, (int)n, path, NULL,
                                      XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);

    if (doc == NULL) {
        const xmlError *error = xmlGetLastError();
        char reason[128] = "cannot be read";
        if (error != NULL && error->message != NULL) {
            (void)snprintf(reason, sizeof reason, "%s", error->message);
            reason[strcspn(reason, "\n")] = '\0';
        }
        return log_fail(ST_INPUT, "%s:%d: not well-formed XML: %s", path,
                        error != NULL && error->line > 0 ? error->line : 1, reason);
    }
    *out = doc;
    return ST_OK;
}
