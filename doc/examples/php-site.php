<?php
// The front controller of php-site.cfg: /srv/site/index.php
header('Content-Type: text/plain; charset=utf-8');
$path = rawurldecode(parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
if ($path === '/upload' && $_SERVER['REQUEST_METHOD'] === 'POST') {
    printf("%d bytes\n", strlen(file_get_contents('php://input')));
} elseif ($path === '/') {
    printf("Hello, %s. Your connection is %s.\n", $_SERVER['REMOTE_ADDR'], empty($_SERVER['HTTPS']) ? 'in clear' : 'encrypted');
} elseif (preg_match('#^/item/(\d+)$#', $path, $found)) {
    printf("item %d\n", $found[1]);
} else {
    http_response_code(404);
    echo "There is no such page.\n";
}
