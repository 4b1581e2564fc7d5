"""Messages of the C library in other languages, told in English, so that signatures know them."""

# ruff: noqa: RUF001 (other alphabets are what this file is about)
from __future__ import annotations

import re
from collections.abc import Mapping

# As glibc's catalogues have them (strerror, gai_strerror, strsignal) in French, German, Spanish, Italian, Portuguese,
# Chinese, Japanese, Korean, Russian and Polish. What is an everyday word in its language is left out.
_TABLE = """
Connection refused = Connexion refusée | Verbindungsaufbau abgelehnt | Conexión rehusada | Connessione rifiutata |
  Conexão recusada | 拒绝连接 | 連線被拒絕 | 接続を拒否されました | 연결이 거부됨 | В соединении отказано |
  Połączenie odrzucone
Connection timed out = Connexion terminée par expiration du délai d'attente |
  Die Wartezeit für die Verbindung ist abgelaufen | Expiró el tiempo de conexión | Connessione scaduta |
  Tempo esgotado para conexão | 连接超时 | 連線超過時間 | 接続がタイムアウトしました | 연결 시간 초과 |
  Время ожидания соединения истекло | Przekroczony czas oczekiwania na połączenie | délai d'attente dépassé
Connection reset by peer = Connexion ré-initialisée par le correspondant |
  Die Verbindung wurde vom Kommunikationspartner zurückgesetzt | Conexión reinicializada por la máquina remota |
  Connessione interrotta dal corrispondente | Conexão fechada pela outra ponta | 连接被对方重设 | 連線被對方重設 |
  接続が相手からリセットされました | 상대편이 연결을 끊음 | Соединение разорвано другой стороной |
  Połączenie zerwane przez drugą stronę | Connexion réinitialisée par le correspondant | 连接被对端重置
No route to host = Aucun chemin d'accès pour atteindre l'hôte cible | Keine Route zum Zielrechner |
  No existe ninguna ruta hasta el `host' | Nessun instradamento per l'host | Não há rota para o host |
  没有到主机的路由 | 找不到通往該主機的路由路徑 | ホストへの経路がありません | 호스트로 갈 루트가 없음 |
  Нет маршрута до узла | Brak trasy do hosta
Network is unreachable = Le réseau n'est pas accessible | Das Netzwerk ist nicht erreichbar |
  La red es inaccesible | La rete non è raggiungibile | A rede está fora de alcance | 网络不可达 | 無法接觸網路 |
  ネットワークに届きません | 네트워크가 접근 불가능합니다 | Сеть недоступна | Sieć jest niedostępna
Address already in use = Adresse déjà utilisée | Die Adresse wird bereits verwendet |
  La dirección ya se está usando | Indirizzo già in uso | Endereço já em uso | 地址已在使用 | 位址已經有在使用 |
  アドレスは既に使用中です | 주소가 이미 사용 중입니다 | Адрес уже используется | Adres jest już w użyciu
Cannot assign requested address = Ne peut attribuer l'adresse demandée |
  Die angeforderte Adresse kann nicht zugewiesen werden | No se puede asignar la dirección solicitada |
  Impossibile assegnare l'indirizzo richiesto | Não foi possível acessar o endereço requisitado |
  无法指定被请求的地址 | 無法指定所需的位址 | 要求アドレスに割り当てられません |
  요청한 주소를 배정할 수 없습니다 | Невозможно назначить запрошенный адрес |
  Nie można przypisać żądanego adresu
Broken pipe = Relais brisé (pipe) | Datenübergabe unterbrochen (broken pipe) | Tubería rota | Pipe interrotta |
  Pipe quebrado | 断开的管道 | 管線損壞 | 파이프가 깨어짐 | Обрыв канала | Przerwany potok
Too many open files = Trop de fichiers ouverts | Zu viele offene Dateien | Demasiados ficheros abiertos |
  Troppi file aperti | Muitos arquivos abertos | 打开的文件过多 | 開啟太多檔案 | ファイルを開きすぎです |
  열린 파일이 너무 많음 | Слишком много открытых файлов | Za dużo otwartych plików |
  Demasiados archivos abiertos | 打开文件过多
Cannot allocate memory = Ne peut allouer de la mémoire | Nicht genügend Hauptspeicher verfügbar |
  No se pudo asignar memoria | Impossibile allocare memoria | Não foi possível alocar memória | 无法分配内存 |
  無法配置記憶體 | メモリを確保できません | 메모리를 할당할 수 없습니다 | Невозможно выделить память |
  Nie można przydzielić pamięci | Impossible d'allouer de la mémoire
No space left on device = Aucun espace disponible sur le périphérique |
  Auf dem Gerät ist kein Speicherplatz mehr verfügbar | No queda espacio en el dispositivo |
  Spazio esaurito sul device | Não há espaço disponível no dispositivo | 设备上没有空间 | 裝置上已無多餘空間 |
  デバイスに空き領域がありません | 장치에 남은 공간이 없음 | На устройстве не осталось свободного места |
  Brak miejsca na urządzeniu
Permission denied = Permission non accordée | Keine Berechtigung | Permiso denegado | Permesso negato |
  Permissão negada | 权限不够 | 拒絕不符權限的操作 | 許可がありません | 허가 거부 | Отказано в доступе |
  Brak dostępu | Permission refusée
Operation not permitted = Opération non permise | Die Operation ist nicht erlaubt | Operación no permitida |
  Operazione non permessa | Operação não permitida | 不允许的操作 | 此項操作並不被允許 |
  許可されていない操作です | 명령을 허용하지 않음 | Операция не позволена | Operacja niedozwolona
No such file or directory = Aucun fichier ou dossier de ce type | Datei oder Verzeichnis nicht gefunden |
  No existe el fichero o el directorio | File o directory non esistente | Arquivo ou diretório inexistente |
  没有那个文件或目录 | 沒有此一檔案或目錄 | そのようなファイルやディレクトリはありません |
  그런 파일이나 디렉터리가 없습니다 | Нет такого файла или каталога | Nie ma takiego pliku ani katalogu |
  No existe el archivo o el directorio | 没有此文件或目录
No such device = Aucun périphérique de ce type | Kein passendes Gerät gefunden | No existe el dispositivo |
  Nessun device corrisponde | Dispositivo inexistente | 没有那个设备 | 沒有此一裝置 |
  そのようなデバイスはありません | 그런 장치가 없음 | Нет такого устройства | Nie ma takiego urządzenia
Invalid argument = Argument invalide | Das Argument ist ungültig | Argumento inválido | Argomento non valido |
  无效的参数 | 不適用的引數 | 無効な引数です | 부적절한 인수 | Недопустимый аргумент | Zły argument
Resource temporarily unavailable = Ressource temporairement non disponible |
  Die Ressource ist zur Zeit nicht verfügbar | Recurso no disponible temporalmente |
  Risorsa temporaneamente non disponibile | Recurso temporariamente indisponível | 资源暂时不可用 |
  資源暫時無法取得 | リソースが一時的に利用できません | 자원이 일시적으로 사용 불가능함 |
  Ресурс временно недоступен | Zasoby chwilowo niedostępne
Input/output error = Erreur d'entrée/sortie | Eingabe-/Ausgabefehler | Error de entrada/salida |
  Errore di input/output | Erro de entrada/saída | 输入/输出错误 | 輸入/輸出錯誤 | 入力/出力エラーです |
  입력/출력 오류 | Ошибка ввода/вывода | Błąd wejścia/wyjścia
Name or service not known = Nom ou service inconnu | Der Name oder der Dienst ist nicht bekannt |
  Nombre o servicio desconocido | Nome o servizio sconosciuto | Nome ou serviço desconhecido | 未知的名称或服务 |
  名稱或服務未知 | 名前またはサービスが不明です | 이름 혹은 서비스를 알 수 없습니다 | Неизвестное имя или служба |
  Ta nazwa lub usługa jest nieznana
Temporary failure in name resolution = Échec temporaire dans la résolution du nom |
  Temporärer Fehler bei der Namensauflösung | Fallo temporal en la resolución del nombre |
  Errore temporaneo nella risoluzione del nome | Falha temporário na resolução de nome | 域名解析暂时失败 |
  解析名稱時發生暫時性錯誤 | 名前解決に一時的に失敗しました | name resolution에서 일시적인 실패 |
  Временный сбой в разрешении имен | Odwzorowanie nazwy jest chwilowo niemożliwe
Read-only file system = Système de fichiers accessible en lecture seulement | Das Dateisystem ist nur lesbar |
  Sistema de ficheros de sólo lectura | File system in sola lettura | Sistema de arquivos somente para leitura |
  只读文件系统 | 唯讀的檔案系統 | 読み込み専用ファイルシステムです | 읽기전용 파일 시스템 |
  Файловая система доступна только для чтения | System plików wyłącznie do odczytu
Disk quota exceeded = Débordement du quota d'espace disque |
  Der zugewiesene Plattenplatz (Quota) ist überschritten | Se ha excedido la cuota de disco |
  Quota disco superata | Cota da disco excedida | 超出磁盘限额 | 磁碟配額已滿 | ディスク使用量制限を超過しました |
  디스크 할당량이 초과됨 | Превышена дисковая квота | Przekroczony limit dyskowy
Bus error = Erreur du bus | Bus-Zugriffsfehler | Error del bus | Errore di bus | Erro no barramento | 总线错误 |
  匯流排錯誤 | バスエラー | 버스 오류 | Ошибка шины | Błąd szyny
Segmentation fault = Erreur de segmentation | Speicherzugriffsfehler | Violación de segmento |
  Errore di segmentazione | Falha de segmentação | 段错误 | 程式記憶體區段錯誤 | 세그멘테이션 오류 |
  Ошибка сегментирования | Naruszenie ochrony pamięci
Killed = Processus arrêté | Убито | Terminado (killed) | 已杀死 | 強制結束 | 強制終了 | 죽었음 | Unicestwiony
Software caused connection abort = Le logiciel a provoqué l'abandon de la connexion |
  Das Programm verursachte den Abbruch der Verbindung | El programa provocó el fin de la conexión |
  Connessione interrotta per un problema software | Término de conexão causada por software |
  由软件导致的连接断开 | 軟體造成連線中斷 | ソフトウェアが接続を中断しました |
  소프트웨어가 연결 중단을 초래했습니다 | Программа вызвала разрыв соединения |
  Oprogramowanie spowodowało przerwanie połączenia
Operation not supported = Opération non supportée | Die Operation wird nicht unterstützt |
  La operación no está soportada | Operazione non supportata | Operação sem suporte | 不支持的操作 |
  此項操作並不被支援 | サポートされていない操作です | 명령을 지원하지 않음 | Неподдерживаемая операция |
  Operacja nie obsługiwana
Protocol not available = Protocole non disponible | Das Protokoll ist nicht verfügbar | Protocolo no disponible |
  Protocollo non disponibile | Protocolo não disponível | 不可用的协议 | 協定不存在 | プロトコルは利用できません |
  규약 사용 불가능 | Протокол недоступен | Protokół niedostępny
error while loading shared libraries = erreur lors du chargement des bibliothèques partagées |
  Fehler beim Laden gemeinsam genutzter Bibliotheken | Fehler beim Laden gemeinsam benutzter Bibliotheken |
  error al cargar las bibliotecas compartidas | errore durante il caricamento delle librerie condivise |
  erro ao carregar bibliotecas compartilhadas | 加载共享库时出错 | 載入共享函式庫時發生錯誤 |
  共有ライブラリの読み込み中にエラーが発生しました | 공유 라이브러리를 읽어들이는 중 오류 |
  ошибка при загрузке разделяемых библиотек | błąd podczas wczytywania bibliotek dzielonych
cannot open shared object file = Ne peut ouvrir le fichier d'objet partagé |
  impossible d'ouvrir le fichier d'objet partagé | Kann die Shared-Object-Datei nicht öffnen |
  no se puede abrir el fichero del objeto compartido | no se puede abrir el archivo de objeto compartido |
  impossibile aprire il file oggetto condiviso | não foi possível abrir arquivo de objeto compartilhado |
  无法打开共享目标文件 | 无法打开共享对象文件 | 無法開啟共享目的檔 | 共有オブジェクトファイルを開けません |
  공유 오브젝트 파일을 열 수 없습니다 | 공유 목적 파일을 열 수 없습니다 |
  невозможно открыть разделяемый объектный файл | не удается открыть общий объектный файл |
  nie można otworzyć pliku obiektu dzielonego
command not found = commande introuvable | Kommando nicht gefunden | Befehl nicht gefunden | orden no encontrada |
  comando non trovato | comando não encontrado | 未找到命令 | 找不到指令 | コマンドが見つかりません |
  명령어를 찾을 수 없음 | команда не найдена | nie znaleziono polecenia | instrukcja nie znaleziona
Device or resource busy = Périphérique ou ressource occupé | Das Gerät oder die Ressource ist belegt |
  Dispositivo o recurso ocupado | Dispositivo o risorsa occupata | Dispositivo ou recurso está ocupado | 设备或资源忙 |
  裝置或系統資源忙碌中 | デバイスもしくはリソースがビジー状態です | 장치나 자원이 동작 중 |
  Устройство или ресурс занято | Urządzenie lub zasoby zajęte
Stale file handle = Identificateur de fichier obsolète | Veraltete Dateizugriffsnummer (file handle) |
  `handle' de fichero en desuso | 过旧的文件句柄 | 过旧的文件控柄 | 舊的檔案代碼 | 古いファイルハンドルです |
  끊어진 파일 핸들 | Устаревший дескриптор файла | Nieaktualny uchwyt pliku
Transport endpoint is not connected = Noeud final de transport n'est pas connecté | Der Socket ist nicht verbunden |
  El otro extremo de la conexión no está conectado | 传输端点尚未连接 | 传输端点未连接 | 傳輸終端並未連線 |
  通信端点が接続されていません | 전송 종료지점이 연결되어 있지 않음 | Конечная точка передачи не подсоединена |
  Drugi koniec nie jest połączony
Message too long = Message trop long | Die Nachricht ist zu lang | Mensaje demasiado largo | Messaggio troppo lungo |
  Mensagem muito longa | 消息过长 | 訊息過長 | メッセージが長すぎます | 메시지가 너무 길음 | Слишком длинное сообщение |
  Komunikat za długi
Network is down = Le réseau ne fonctionne pas | Das Netzwerk ist nicht aktiv | La red no está activa |
  Network non attivo | 网络已关闭 | 網路已關閉 | ネットワークが切断されています | 네트워크가 꺼져 있음 |
  Сеть выключена | Sieć jest wyłączona
Bad address = Mauvaise adresse | Dirección incorrecta | Indirizzo errato | Endereço inválido | 错误的地址 | 錯誤的位址 |
  アドレスが不正です | 잘못된 주소 | Неправильный адрес | Zły adres
Function not implemented = Fonction non implantée | Die angeforderte Funktion ist nicht implementiert |
  Función no implementada | Funzione non implementata | Função não implementada | 函数未实现 | 函數未實作 |
  関数は実装されていません | 함수가 구현되지 않음 | Функция не реализована | Funkcja nie zaimplementowana
Illegal instruction = Instruction non permise | Instruction illégale | Ungültiger Maschinenbefehl | Instrucción ilegal |
  Istruzione non consentita | Instrução ilegal | 非法指令 | 不合法的命令 | 잘못된 명령어 | Недопустимая инструкция |
  Недопустимая операция | Nieprawidłowa instrukcja
Aborted (core dumped) = Abandon (core dumped) | Abandon (vidé) | Abgebrochen (Speicherabzug geschrieben) |
  Abortado (`core' generado) | Annullato (core dump creato) | Abortado (imagem do núcleo gravada) |
  已放弃 (核心已转储) | 已放弃（核心已转储） | 已中止 (核心已转储) | アボートしました (コアダンプ) |
  중지됨 (core dumped) | Аварийный останов (стек памяти сброшен на диск) | Przerwane (zrzut pamięci)
core dumped = 核心已转储 | 吐核 | Speicherabzug geschrieben | コアダンプ
"""


def _read(table: str) -> Mapping[str, str]:
    """English by the foreign message, in lower case."""
    found: dict[str, str] = {}
    for row in table.strip().replace("|\n", "|").split("\n"):
        english, _, foreign = row.partition(" = ")
        found.update({each.strip().lower(): english for each in foreign.split("|")})
    return found


ENGLISH = _read(_TABLE)
TRIGGERS = tuple((foreign,) for foreign in ENGLISH)
_ANY = re.compile("|".join(map(re.escape, sorted(ENGLISH, key=len, reverse=True))), re.IGNORECASE)


def in_english(line: str) -> str:
    """The line with its messages of the C library in English."""
    return _ANY.sub(lambda found: ENGLISH[found[0].lower()], line)
